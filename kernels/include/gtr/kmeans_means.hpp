// From the sums of clusters to their means, and how far those are from the centroids before.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// Centroids in the columns from `low` up to `high`. They lie cluster by cluster (`column_stride` 1) or column by column
// (`cluster_stride` 1), as sums and old centroids do. A cluster without rows stays where it is. Squared moves are added
// up for each cluster.
template <class Real, class Team>
GTR_FN void cluster_means(Team& team, const f64* sums, const f64* counts, const Real* before, i64 n_clusters, i64 low,
                          i64 high, i64 cluster_stride, i64 column_stride, Real* means, f64* moves) {
    auto move = [&](i64 cluster, i64 column) {
        const i64 at = cluster * cluster_stride + column * column_stride;
        const Real old = before[at];
        const Real mean = counts[cluster] > 0 ? static_cast<Real>(sums[at] / counts[cluster]) : old;
        means[at] = mean;
        const f64 apart = static_cast<f64>(mean) - old;
        return apart * apart;
    };
    if (column_stride == 1) {
        for (i64 cluster = 0; cluster < n_clusters; ++cluster) {
            const f64 moved = team.sum(high - low, [&](i64 i) { return move(cluster, low + i); });
            team.one([&] { moves[cluster] = moved; });
        }
        return;
    }
    team.each(n_clusters, [&](i64 cluster) { moves[cluster] = 0; });
    // Each cluster stays with one thread throughout.
    for (i64 column = low; column < high; ++column) {
        team.each(n_clusters, [&](i64 cluster) { moves[cluster] += move(cluster, column); });
    }
}

GTR_FINISH

GTR_ENTRY(cluster_means_f32, Block, const f64* sums, const f64* counts, const f32* before, i64 n_clusters,
          i64 n_columns, i64 columns_together, i64 cluster_stride, i64 column_stride, f32* means, f64* moves)
    cluster_means(team, sums, counts, before, n_clusters, item * columns_together,
                  min((item + 1) * columns_together, n_columns), cluster_stride, column_stride, means,
                  moves + item * n_clusters);
GTR_END

GTR_ENTRY(cluster_means_f64, Block, const f64* sums, const f64* counts, const f64* before, i64 n_clusters,
          i64 n_columns, i64 columns_together, i64 cluster_stride, i64 column_stride, f64* means, f64* moves)
    cluster_means(team, sums, counts, before, n_clusters, item * columns_together,
                  min((item + 1) * columns_together, n_columns), cluster_stride, column_stride, means,
                  moves + item * n_clusters);
GTR_END
