// Unit rows, and what their products with queries come to for each cluster.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

template <class T>
GTR_FN f64 as_f64(T value) {
    return static_cast<f64>(to_f32(value));
}
GTR_FN f64 as_f64(f64 value) { return value; }

// A row divided by its Euclidean length, in float32; a row of zeros stays zero.
template <class T, class Team>
GTR_FN void unit_row(Team& team, const T* row, i64 width, f32* unit) {
    const f64 squares = team.sum(width, [&](i64 c) {
        const f64 value = as_f64(row[c]);
        return value * value;
    });
    const f64 scale = squares > 0 ? 1.0 / sqrt(squares) : 0.0;
    team.each(width, [&](i64 c) { unit[c] = static_cast<f32>(as_f64(row[c]) * scale); });
}

// Clusters that a team takes at a time.
constexpr i64 TOGETHER = 32;

// One query's mean or best product with the rows of each cluster of a group; minus infinity for a cluster of none.
template <class Team>
GTR_FN void reduce_products(Team& team, i64 first, i64 last, const f32* products, const i64* offsets, i64 start,
                            i64 best, f32* scores) {
    for (i64 cluster = first; cluster < last; ++cluster) {
        const i64 n = offsets[cluster + 1] - offsets[cluster];
        const f32* own = products + (offsets[cluster] - start);
        f32 score = lowest<f32>();
        if (best) {
            score = team.max(n, lowest<f32>(), [&](i64 i) { return own[i]; });
        } else if (n > 0) {
            score = static_cast<f32>(team.sum(n, [&](i64 i) { return static_cast<f64>(own[i]); }) / n);
        }
        team.one([&] { scores[cluster] = score; });
    }
}

GTR_FINISH

// Unit rows of the numbered rows, or of all rows in turn where there are no numbers.
GTR_ENTRY(unit_rows_f32, Warp, const f32* rows, const i32* numbers, i64 width, f32* units)
    unit_row(team, rows + (numbers ? numbers[item] : item) * width, width, units + item * width);
GTR_END

GTR_ENTRY(unit_rows_f64, Warp, const f64* rows, const i32* numbers, i64 width, f32* units)
    unit_row(team, rows + (numbers ? numbers[item] : item) * width, width, units + item * width);
GTR_END

GTR_ENTRY(unit_rows_bf16, Warp, const bf16* rows, const i32* numbers, i64 width, f32* units)
    unit_row(team, rows + (numbers ? numbers[item] : item) * width, width, units + item * width);
GTR_END

GTR_ENTRY(unit_rows_f16, Warp, const f16* rows, const i32* numbers, i64 width, f32* units)
    unit_row(team, rows + (numbers ? numbers[item] : item) * width, width, units + item * width);
GTR_END

// Scores of the clusters from `first` up to `last`, of `n_clusters`, from a tile of products `[B, width]`. An item is a
// query with a group of clusters; the tile's first column stands for the first cluster's first row.
GTR_ENTRY(cluster_scores, Warp, const f32* products, i64 width, const i64* offsets, i64 first, i64 last, i64 n_clusters,
          i64 best, f32* scores)
    const i64 n_groups = (last - first + TOGETHER - 1) / TOGETHER;
    const i64 query = item / n_groups, group = first + item % n_groups * TOGETHER;
    reduce_products(team, group, min(group + TOGETHER, last), products + query * width, offsets, offsets[first], best,
                    scores + query * n_clusters);
GTR_END
