// PageRank on several threads against one.
#include "gtr/pagerank.hpp"

#include "testing.hpp"

using namespace gtr;
using namespace gtr::testing;

namespace {

struct Batch {
    std::vector<i64> offsets{0}, row_offsets{0};
    std::vector<i32> columns;
    std::vector<f32> weights, degrees, personalization;
};

// Each query's candidates with symmetric weights among them; a query's last candidate has none.
Batch make_batch(const std::vector<i64>& sizes, double density, bool all_zero) {
    Batch batch;
    Random random(3);
    for (i64 n : sizes) {
        const i64 first = batch.offsets.back();
        std::vector<f32> dense(n * n);
        for (i64 u = 0; u < n - 1; ++u) {
            for (i64 v = u + 1; v < n - 1; ++v) {
                if (random.chance(density)) dense[u * n + v] = dense[v * n + u] = random.unit() + 0.01f;
            }
        }
        for (i64 u = 0; u < n; ++u) {
            f32 degree = 0;
            for (i64 v = 0; v < n; ++v) {
                if (dense[u * n + v] == 0) continue;
                batch.columns.push_back(static_cast<i32>(first + v));
                batch.weights.push_back(dense[u * n + v]);
                degree += dense[u * n + v];
            }
            batch.row_offsets.push_back(static_cast<i64>(batch.columns.size()));
            batch.degrees.push_back(degree);
            batch.personalization.push_back(all_zero || u % 2 ? 0 : random.unit());
        }
        batch.offsets.push_back(first + n);
    }
    return batch;
}

struct Outputs {
    std::vector<f32> ranks;
    std::vector<i64> iterations;
    std::vector<u8> converged;
};

void check(const std::vector<i64>& sizes, double density, bool all_zero, i64 most) {
    const Batch grown = make_batch(sizes, density, all_zero);
    const Batch batch = grown;  // its arrays end with their last item
    const i64 n_queries = static_cast<i64>(sizes.size());
    const i64 longest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
    auto make = [&] {
        return Outputs{std::vector<f32>(batch.degrees.size(), -1), std::vector<i64>(sizes.size(), -1),
                       std::vector<u8>(sizes.size(), 7)};
    };
    i64 most_entries = 0;
    for (i64 query = 0; query < n_queries; ++query) {
        const i64 entries = batch.row_offsets[batch.offsets[query + 1]] - batch.row_offsets[batch.offsets[query]];
        most_entries = std::max(most_entries, entries);
    }
    // As the Python function sizes it.
    const i64 rows = (longest + pagerank_rows) * 4;
    const i64 tiled = (most_entries + most_entries / 16 + pagerank_rows * (std::min(longest, most_entries) + 1)) * 4;
    const i64 bytes = scratch_for(rows, rows, rows, rows, rows, rows, rows, rows, 2 * rows, tiled, tiled,
                                  pagerank_runs * pagerank_classes * 4);
    compare_teams(
        n_queries, bytes, make,
        [&](auto& team, i64 item, Outputs& outputs) {
            pagerank(team, item, batch.offsets.data(), batch.row_offsets.data(), batch.columns.data(),
                     batch.weights.data(), batch.degrees.data(), batch.personalization.data(), 0.85, 1e-6, most,
                     outputs.ranks.data(), outputs.iterations.data(), outputs.converged.data());
        },
        [&](const Outputs& found, const Outputs& expected) {
            expect_near("ranks", found.ranks, expected.ranks, 1e-6);
            for (i64 query = 0; query < n_queries; ++query) {
                f32 sum = 0;
                for (i64 i = batch.offsets[query]; i < batch.offsets[query + 1]; ++i) sum += found.ranks[i];
                expect(sizes[query] == 0 || std::abs(sum - 1) < 1e-5, "the ranks sum to ", sum);
            }
            expect_near("iterations", found.iterations, expected.iterations, 1);
            expect_equal("converged", found.converged, expected.converged);
        });
}

void checks() {
    check({}, 0.5, false, 100);
    check({0, 1, 0, 2}, 0.5, false, 100);
    check({7, 0, 33, 5}, 0.3, false, 100);
    check({40}, 0.04, false, 100);  // has leaves
    check({20}, 0.4, true, 100);
    check({20, 3}, 0.4, false, 0);
    check({20, 3}, 0.4, false, 2);
}

}  // namespace

GTR_TEST_MAIN(checks)
