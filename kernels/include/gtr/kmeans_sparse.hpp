// K-means on sparse rows: each row's nearest centroid, and the sums of each cluster's rows.
//
// Centroids lie column by column, `[V, S K]` for S starts of K: a row reads whole lines of them, and each of its entries
// touches all centroids at once.
#pragma once

#include "gtr/sparse_rows.hpp"

GTR_BEGIN

// Below this share of |x|^2 + |c|^2, the distance |x|^2 - 2xc + |c|^2 is mostly rounding.
constexpr f64 CANCELLED = 1e-4;

// The squared distance of a row to a centroid with the squared length `whole`, by difference: 0 exactly where they are
// equal.
template <class Real, class Team>
GTR_FN f64 sparse_difference(Team& team, i64 first, i64 last, const i32* columns, const Real* weights,
                             const Real* centroid, i64 stride, f64 whole) {
    const i64 n = last - first;
    const f64 here = team.sum(n, [&](i64 i) {
        const f64 apart = static_cast<f64>(weights[first + i]) - centroid[columns[first + i] * stride];
        return apart * apart;
    });
    const f64 inside = team.sum(n, [&](i64 i) {
        const f64 at = centroid[columns[first + i] * stride];
        return at * at;
    });
    // What is left of the centroid beside the row's columns; less than the rounding of two sums is nothing.
    const f64 outside = whole - inside;
    return here + (outside > (16 + n) * 2.3e-16 * whole ? outside : 0);
}

// Ties go to the smaller cluster. Distances may be null.
template <class Real, class Team>
GTR_FN void sparse_assign(Team& team, i64 row, const i64* offsets, const i32* columns, const Real* weights,
                          const Real* centroids, const f64* squares, i64 n_rows, i64 n_starts, i64 n_clusters,
                          i32* labels, Real* distances) {
    const i64 first = offsets[row], last = offsets[row + 1], width = n_starts * n_clusters;
    Real* scores = team.template scratch<Real>(width);
    row_product(team, first, last, columns, weights, centroids, width, scores);
    team.each(width, [&](i64 k) { scores[k] = 2 * scores[k] - static_cast<Real>(squares[k]); });
    for (i64 start = 0; start < n_starts; ++start) {
        const Real* own = scores + start * n_clusters;
        const Real best = team.max(n_clusters, lowest<Real>(), [&](i64 k) { return own[k]; });
        const i32 none = -static_cast<i32>(n_clusters);
        const i32 least = team.max(n_clusters, none, [&](i64 k) { return own[k] == best ? -static_cast<i32>(k) : none; });
        // Where no score is a number, neither is a distance.
        const i64 nearest = least == none ? 0 : -least;
        team.one([&] { labels[start * n_rows + row] = static_cast<i32>(nearest); });
        if (!distances) continue;
        const f64 length = team.sum(last - first, [&](i64 i) {
            const f64 weight = weights[first + i];
            return weight * weight;
        });
        const f64 square = squares[start * n_clusters + nearest];
        f64 distance = max(0.0, length - static_cast<f64>(own[nearest]));
        if (distance <= CANCELLED * (length + square)) {
            distance = sparse_difference(team, first, last, columns, weights, centroids + start * n_clusters + nearest,
                                         width, square);
        }
        team.one([&] { distances[start * n_rows + row] = static_cast<Real>(distance); });
    }
}

// Where each of the ranges of so many columns begins within a row, for each range and at last for the row's end; range
// by range, so that who adds up a range reads what follows each other. Flags rows whose columns don't rise.
template <class Team>
GTR_FN void range_places(Team& team, i64 row, const i64* offsets, const i32* columns, i64 n_rows, i64 n_ranges,
                         i64 columns_together, i32* places, u8* wrong) {
    const i64 first = offsets[row], last = offsets[row + 1];
    const i64 falls = team.sum(last - first - 1, [&](i64 i) { return i64(columns[first + i + 1] <= columns[first + i]); });
    team.one([&] { wrong[row] = falls > 0; });
    team.each(n_ranges + 1, [&](i64 range) {
        const i64 place = range < n_ranges ? first_not_below(columns, first, last, range * columns_together) : last;
        places[range * n_rows + row] = static_cast<i32>(place - first);
    });
}

// The sums of the clusters in a range of columns, `[columns, S K]`: rows of a block in their order, then blocks in
// theirs.
template <class Real, class Team>
GTR_FN void sparse_sums(Team& team, i64 low, i64 high, const i32* begins, const i32* ends, const i64* offsets,
                        const i32* columns, const Real* weights, const i32* labels, i64 n_rows, i64 n_starts,
                        i64 n_clusters, i64 block_rows, f64* sums) {
    const i64 width = n_starts * n_clusters, n_sums = (high - low) * width;
    f64* later = team.template scratch<f64>(n_rows > block_rows ? n_sums : 0);
    f64* own = sums + low * width;
    team.each(n_sums, [&](i64 i) { own[i] = 0; });
    team.sync();
    for (i64 first = 0; first < n_rows; first += block_rows) {
        f64* block = first == 0 ? own : later;
        if (first > 0) {
            team.each(n_sums, [&](i64 i) { later[i] = 0; });
            team.sync();
        }
        const i64 last = min(first + block_rows, n_rows);
        for (i64 row = first; row < last; ++row) {
            const i64 begin = offsets[row] + begins[row], n = ends[row] - begins[row];
            if (n == 0) continue;
            for (i64 start = 0; start < n_starts; ++start) {
                f64* cluster = block + start * n_clusters + labels[start * n_rows + row];
                team.each(n, [&](i64 i) { cluster[(columns[begin + i] - low) * width] += weights[begin + i]; });
            }
            team.sync();
        }
        if (first > 0) {
            team.each(n_sums, [&](i64 i) { own[i] += later[i]; });
            team.sync();
        }
    }
}

// The squared lengths of centroids over some of their columns.
template <class Real, class Team>
GTR_FN void column_squares(Team& team, i64 low, i64 high, const Real* centroids, i64 width, f64* squares) {
    team.each(width, [&](i64 k) { squares[k] = 0; });
    for (i64 column = low; column < high; ++column) {
        const Real* line = centroids + column * width;
        team.each(width, [&](i64 k) { squares[k] += static_cast<f64>(line[k]) * line[k]; });
    }
}

GTR_FINISH

GTR_ENTRY(sparse_assign_f32, Warp, const i64* offsets, const i32* columns, const f32* weights, const f32* centroids,
          const f64* squares, i64 n_rows, i64 n_starts, i64 n_clusters, i32* labels, f32* distances)
    sparse_assign(team, item, offsets, columns, weights, centroids, squares, n_rows, n_starts, n_clusters, labels,
                  distances);
GTR_END

GTR_ENTRY(sparse_assign_f64, Warp, const i64* offsets, const i32* columns, const f64* weights, const f64* centroids,
          const f64* squares, i64 n_rows, i64 n_starts, i64 n_clusters, i32* labels, f64* distances)
    sparse_assign(team, item, offsets, columns, weights, centroids, squares, n_rows, n_starts, n_clusters, labels,
                  distances);
GTR_END

GTR_ENTRY(sparse_distances_f32, Warp, const i64* offsets, const i32* columns, const f32* weights, const f32* centroids,
          const f64* squares, i64 cluster_stride, i64 column_stride, const i32* labels, f32* distances)
    const f64 distance = sparse_difference(team, offsets[item], offsets[item + 1], columns, weights,
                                           centroids + labels[item] * cluster_stride, column_stride,
                                           squares[labels[item]]);
    team.one([&] { distances[item] = static_cast<f32>(distance); });
GTR_END

GTR_ENTRY(sparse_distances_f64, Warp, const i64* offsets, const i32* columns, const f64* weights, const f64* centroids,
          const f64* squares, i64 cluster_stride, i64 column_stride, const i32* labels, f64* distances)
    const f64 distance = sparse_difference(team, offsets[item], offsets[item + 1], columns, weights,
                                           centroids + labels[item] * cluster_stride, column_stride,
                                           squares[labels[item]]);
    team.one([&] { distances[item] = distance; });
GTR_END

GTR_ENTRY(range_places, Warp, const i64* offsets, const i32* columns, i64 n_rows, i64 n_ranges, i64 columns_together,
          i32* places, u8* wrong)
    range_places(team, item, offsets, columns, n_rows, n_ranges, columns_together, places, wrong);
GTR_END

GTR_ENTRY(sparse_sums_f32, Warp, const i64* offsets, const i32* columns, const f32* weights, const i32* places,
          const i32* labels, i64 n_rows, i64 n_starts, i64 n_clusters, i64 n_columns, i64 columns_together,
          i64 block_rows, f64* sums)
    sparse_sums(team, item * columns_together, min((item + 1) * columns_together, n_columns), places + item * n_rows,
                places + (item + 1) * n_rows, offsets, columns, weights, labels, n_rows, n_starts, n_clusters,
                block_rows, sums);
GTR_END

GTR_ENTRY(sparse_sums_f64, Warp, const i64* offsets, const i32* columns, const f64* weights, const i32* places,
          const i32* labels, i64 n_rows, i64 n_starts, i64 n_clusters, i64 n_columns, i64 columns_together,
          i64 block_rows, f64* sums)
    sparse_sums(team, item * columns_together, min((item + 1) * columns_together, n_columns), places + item * n_rows,
                places + (item + 1) * n_rows, offsets, columns, weights, labels, n_rows, n_starts, n_clusters,
                block_rows, sums);
GTR_END

GTR_ENTRY(column_squares_f32, Block, const f32* centroids, i64 n_columns, i64 width, i64 columns_together, f64* squares)
    column_squares(team, item * columns_together, min((item + 1) * columns_together, n_columns), centroids, width,
                   squares + item * width);
GTR_END

GTR_ENTRY(column_squares_f64, Block, const f64* centroids, i64 n_columns, i64 width, i64 columns_together, f64* squares)
    column_squares(team, item * columns_together, min((item + 1) * columns_together, n_columns), centroids, width,
                   squares + item * width);
GTR_END
