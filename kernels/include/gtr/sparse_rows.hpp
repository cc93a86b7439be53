// What kernels do with the rows of a sparse matrix, whose columns rise within each row.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// Whether columns rise, all from 0 to below `upper`.
template <class Team>
GTR_FN bool rising(Team& team, const i32* columns, i64 n, i64 upper) {
    return !team.sum(n, [&](i64 i) {
        const i64 column = columns[i];
        const i64 before = i > 0 ? columns[i - 1] : -1;
        return i64(column <= before || column >= upper);
    });
}

// The first place from `first` on whose column is not below `column`; `last` where there is none.
GTR_FN i64 first_not_below(const i32* columns, i64 first, i64 last, i64 column) {
    // Without branches that depend on what is found: a processor can't guess them.
    i64 n = last - first;
    while (n > 1) {
        const i64 half = n / 2;
        first += half * (columns[first + half - 1] < column);
        n -= half;
    }
    return first + (n == 1 && columns[first] < column);
}

// One row, its entries from first to last, by a dense matrix of so many numbers a row; each sum in the order of the
// entries.
//
// Each thread writes the numbers of `products` that `each` gives it: a sync() before others read them is the caller's.
template <class Real, class Team>
GTR_FN void row_product(Team& team, i64 first, i64 last, const i32* columns, const Real* weights, const Real* dense,
                        i64 width, Real* products) {
    team.each(width, [&](i64 k) { products[k] = 0; });
    i64 e = first;
    // Four rows at a time, so that a sum is read and written once for four products.
    for (; e + 4 <= last; e += 4) {
        const Real wa = weights[e], wb = weights[e + 1], wc = weights[e + 2], wd = weights[e + 3];
        const Real* a = dense + columns[e] * width;
        const Real* b = dense + columns[e + 1] * width;
        const Real* c = dense + columns[e + 2] * width;
        const Real* d = dense + columns[e + 3] * width;
        team.each(width, [&](i64 k) { products[k] = products[k] + wa * a[k] + wb * b[k] + wc * c[k] + wd * d[k]; });
    }
    for (; e < last; ++e) {
        const Real weight = weights[e];
        const Real* row = dense + columns[e] * width;
        team.each(width, [&](i64 k) { products[k] += weight * row[k]; });
    }
}

GTR_FINISH

GTR_ENTRY(sparse_product_f32, Warp, const i64* offsets, const i32* columns, const f32* weights, const f32* dense,
          i64 width, f32* products)
    row_product(team, offsets[item], offsets[item + 1], columns, weights, dense, width, products + item * width);
GTR_END

GTR_ENTRY(sparse_product_f64, Warp, const i64* offsets, const i32* columns, const f64* weights, const f64* dense,
          i64 width, f64* products)
    row_product(team, offsets[item], offsets[item + 1], columns, weights, dense, width, products + item * width);
GTR_END
