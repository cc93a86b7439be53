// Induced edges, widened candidates and similarities on several threads against one.
#include "gtr/transfer.hpp"

#include "testing.hpp"

using namespace gtr;
using namespace gtr::testing;

namespace {

struct Batch {
    std::vector<i64> offsets{0}, graph_offsets{0};
    std::vector<i32> candidates, graph_columns;
    std::vector<f32> graph_weights;
};

Batch make_batch(i64 n_queries, i64 n_tables, double density) {
    Batch batch;
    Random random(5);
    for (i64 u = 0; u < n_tables; ++u) {
        for (i64 v = 0; v < n_tables; ++v) {
            if (!random.chance(density)) continue;
            batch.graph_columns.push_back(static_cast<i32>(v));
            batch.graph_weights.push_back(random.unit());
        }
        batch.graph_offsets.push_back(static_cast<i64>(batch.graph_columns.size()));
    }
    for (i64 query = 0; query < n_queries; ++query) {
        for (i64 v = 0; v < n_tables; ++v) {
            if (query % 3 < 2 && random.chance(0.4)) batch.candidates.push_back(static_cast<i32>(v));
        }
        batch.offsets.push_back(static_cast<i64>(batch.candidates.size()));
    }
    return batch;
}

std::vector<i64> running(const std::vector<i64>& lengths) {
    std::vector<i64> offsets{0};
    for (i64 length : lengths) offsets.push_back(offsets.back() + length);
    return offsets;
}

void check(i64 n_queries, i64 n_tables, double density, bool mapped) {
    const Batch batch = make_batch(n_queries, n_tables, density);
    const i64 n_words = (n_tables + 63) / 64, n_mapped = mapped ? n_words : 0;
    const i64 bytes = scratch_for(n_words * 8, n_words * 4);
    const i64 n = static_cast<i64>(batch.candidates.size());
    struct Counts {
        std::vector<i64> lengths;
        std::vector<u8> wrong;
    };
    auto equal_counts = [](const Counts& found, const Counts& expected) {
        expect_equal("lengths", found.lengths, expected.lengths);
        expect_equal("wrong", found.wrong, expected.wrong);
    };
    Counts induced, widened;
    compare_teams(
        n_queries, bytes, [&] { return Counts{std::vector<i64>(n, -1), std::vector<u8>(n_queries, 7)}; },
        [&](auto& team, i64 item, Counts& counts) {
            induced_count(team, item, batch.offsets.data(), batch.candidates.data(), batch.graph_offsets.data(),
                          batch.graph_columns.data(), n_tables, n_mapped, counts.lengths.data(), counts.wrong.data());
        },
        [&](const Counts& found, const Counts& expected) {
            equal_counts(found, expected);
            induced = expected;
        });
    const std::vector<i64> row_offsets = running(induced.lengths);
    struct Edges {
        std::vector<i32> columns;
        std::vector<f32> weights, degrees;
    };
    compare_teams(
        n_queries, bytes,
        [&] {
            return Edges{std::vector<i32>(row_offsets.back(), -1), std::vector<f32>(row_offsets.back()),
                         std::vector<f32>(n)};
        },
        [&](auto& team, i64 item, Edges& edges) {
            induced_fill(team, item, batch.offsets.data(), batch.candidates.data(), batch.graph_offsets.data(),
                         batch.graph_columns.data(), batch.graph_weights.data(), n_mapped, row_offsets.data(),
                         edges.columns.data(), edges.weights.data(), edges.degrees.data());
        },
        [&](const Edges& found, const Edges& expected) {
            expect_equal("columns", found.columns, expected.columns);
            expect_equal("weights", found.weights, expected.weights);
            expect_equal("degrees", found.degrees, expected.degrees);
        });
    compare_teams(
        n_queries, bytes, [&] { return Counts{std::vector<i64>(n_queries, -1), std::vector<u8>(n_queries, 7)}; },
        [&](auto& team, i64 item, Counts& counts) {
            widen_count(team, item, batch.offsets.data(), batch.candidates.data(), batch.graph_offsets.data(),
                        batch.graph_columns.data(), n_tables, n_words, counts.lengths.data(), counts.wrong.data());
        },
        [&](const Counts& found, const Counts& expected) {
            equal_counts(found, expected);
            widened = expected;
        });
    const std::vector<i64> offsets = running(widened.lengths);
    compare_teams(
        n_queries, bytes, [&] { return std::vector<i32>(offsets.back(), -1); },
        [&](auto& team, i64 item, std::vector<i32>& tables) {
            widen_fill(team, item, batch.offsets.data(), batch.candidates.data(), batch.graph_offsets.data(),
                       batch.graph_columns.data(), n_words, offsets.data(), tables.data());
        },
        [&](const std::vector<i32>& found, const std::vector<i32>& expected) {
            expect_equal("tables", found, expected);
        });
}

void check_similarities(i64 n_rows, i64 n_columns) {
    Random random(7);
    std::vector<f32> tile(n_rows * n_columns);
    for (f32& value : tile) value = 2 * random.unit() - 1;
    std::vector<i64> lengths;
    compare_teams(
        n_rows, 0, [&] { return std::vector<i64>(n_rows, -1); },
        [&](auto& team, i64 item, std::vector<i64>& counts) {
            similarity_count(team, item, tile.data(), n_columns, 0.2, counts.data());
        },
        [&](const std::vector<i64>& found, const std::vector<i64>& expected) {
            expect_equal("lengths", found, expected);
            lengths = expected;
        });
    const std::vector<i64> row_offsets = running(lengths);
    struct Kept {
        std::vector<i32> columns;
        std::vector<f32> weights, degrees;
    };
    compare_teams(
        n_rows, 0,
        [&] {
            return Kept{std::vector<i32>(row_offsets.back(), -1), std::vector<f32>(row_offsets.back()),
                        std::vector<f32>(n_rows)};
        },
        [&](auto& team, i64 item, Kept& kept) {
            similarity_fill(team, item, tile.data(), n_columns, 0.2, 100, row_offsets.data(), kept.columns.data(),
                            kept.weights.data(), kept.degrees.data());
        },
        [&](const Kept& found, const Kept& expected) {
            expect_equal("columns", found.columns, expected.columns);
            expect_equal("weights", found.weights, expected.weights);
            expect_near("degrees", found.degrees, expected.degrees, 1e-5);
        });
}

void checks() {
    check(0, 10, 0.2, true);
    check(3, 1, 1, true);
    for (bool mapped : {false, true}) {
        check(4, 64, 0.1, mapped);
        check(5, 150, 0.05, mapped);
    }
    check_similarities(0, 4);
    check_similarities(3, 1);
    check_similarities(7, 37);
}

}  // namespace

GTR_TEST_MAIN(checks)
