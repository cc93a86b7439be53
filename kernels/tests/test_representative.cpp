// Unit rows, scores of clusters and the union of their members on several threads against one.
#include "gtr/representative.hpp"
#include "gtr/union.hpp"

#include "testing.hpp"

using namespace gtr;
using namespace gtr::testing;

namespace {

void check_units(i64 n_rows, i64 width) {
    Random random(3);
    std::vector<f32> rows(n_rows * width);
    for (f32& value : rows) value = 2 * random.unit() - 1;
    for (i64 c = 0; c < std::min<i64>(n_rows, 1) * width; ++c) rows[c] = 0;
    std::vector<i32> numbers;
    for (i64 i = n_rows; i > 0; --i) numbers.push_back(static_cast<i32>(i - 1));
    for (const i32* chosen : {static_cast<const i32*>(nullptr), static_cast<const i32*>(numbers.data())}) {
        compare_teams(
            n_rows, 0, [&] { return std::vector<f32>(n_rows * width, 7); },
            [&](auto& team, i64 item, std::vector<f32>& units) {
                unit_rows_f32(team, item, rows.data(), chosen, width, units.data());
            },
            [&](const std::vector<f32>& found, const std::vector<f32>& expected) {
                expect_near("units", found, expected, 1e-6);
            });
    }
}

void check_scores(i64 n_queries, i64 n_clusters, i64 longest) {
    Random random(4);
    std::vector<i64> offsets{0};
    for (i64 cluster = 0; cluster < n_clusters; ++cluster) {
        offsets.push_back(offsets.back() + static_cast<i64>(random.unit() * longest));
    }
    const i64 first = n_clusters / 4, last = n_clusters;
    const i64 width = offsets[last] - offsets[first];
    std::vector<f32> products(n_queries * width);
    for (f32& value : products) value = 2 * random.unit() - 1;
    const i64 n_groups = (last - first + TOGETHER - 1) / TOGETHER;
    for (i64 best : {0, 1}) {
        compare_teams(
            n_queries * n_groups, 0, [&] { return std::vector<f32>(n_queries * n_clusters, 7); },
            [&](auto& team, i64 item, std::vector<f32>& scores) {
                cluster_scores(team, item, products.data(), width, offsets.data(), first, last, n_clusters, best,
                               scores.data());
            },
            [&](const std::vector<f32>& found, const std::vector<f32>& expected) {
                expect_near("scores", found, expected, 1e-6);
            });
    }
}

void check_union(i64 n_rows, i64 n_runs, i64 longest, i64 span) {
    Random random(11);
    std::vector<i64> offsets{0}, starts, ends;
    std::vector<i32> ids;
    for (i64 row = 0; row < n_rows; ++row) {
        for (i64 run = 0; run < (row % 3 == 2 ? 0 : n_runs); ++run) {
            starts.push_back(static_cast<i64>(ids.size()));
            for (i64 i = 0; i < longest; ++i) {
                if (random.chance(0.8)) ids.push_back(static_cast<i32>(random.unit() * (span - 1)));
            }
            ends.push_back(static_cast<i64>(ids.size()));
        }
        offsets.push_back(static_cast<i64>(starts.size()));
    }
    const i64 n_words = (span + 63) / 64, bytes = scratch_for(n_words * 8);
    std::vector<i64> united_offsets{0};
    compare_teams(
        n_rows, bytes, [&] { return std::vector<i64>(n_rows, -1); },
        [&](auto& team, i64 item, std::vector<i64>& lengths) {
            union_count(team, item, offsets.data(), starts.data(), ends.data(), ids.data(), n_words, lengths.data());
        },
        [&](const std::vector<i64>& found, const std::vector<i64>& expected) {
            expect_equal("lengths", found, expected);
            united_offsets = {0};
            for (i64 length : expected) united_offsets.push_back(united_offsets.back() + length);
        });
    compare_teams(
        n_rows, bytes, [&] { return std::vector<i32>(united_offsets.back(), -1); },
        [&](auto& team, i64 item, std::vector<i32>& united) {
            union_fill(team, item, offsets.data(), starts.data(), ends.data(), ids.data(), n_words,
                       united_offsets.data(), united.data());
        },
        [&](const std::vector<i32>& found, const std::vector<i32>& expected) {
            expect_equal("united", found, expected);
            for (i64 row = 0; row < n_rows; ++row) {
                for (i64 i = united_offsets[row] + 1; i < united_offsets[row + 1]; ++i) {
                    expect(expected[i - 1] < expected[i], "ids of row ", row, " don't rise at ", i);
                }
            }
        });
}

void checks() {
    check_units(0, 4);
    check_units(3, 1);
    check_units(5, 100);
    check_scores(0, 3, 4);
    check_scores(1, 1, 9);
    check_scores(3, 70, 20);
    check_union(0, 2, 3, 10);
    check_union(2, 1, 1, 1);
    check_union(5, 3, 40, 64);
    check_union(4, 2, 300, 1000);
}

}  // namespace

GTR_TEST_MAIN(checks)
