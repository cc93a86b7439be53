// Products of a few queries with many rows of bf16: what takes the time is to read the rows.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// The products of all queries with the rows from `first` up to `last`, rounded to bf16.
template <class Team>
GTR_FN void few_products(Team& team, const f32* queries, const bf16* rows, i64 first, i64 last, i64 n_queries,
                         i64 n_rows, i64 dim, bf16* products) {
    team.each(last - first, [&](i64 i) {
        const bf16* row = rows + (first + i) * dim;
        for (i64 query = 0; query < n_queries; ++query) {
            const f32* own = queries + query * dim;
            f32 product = 0;
#pragma omp simd reduction(+ : product)
            for (i64 j = 0; j < dim; ++j) product += own[j] * to_f32(row[j]);
            products[query * n_rows + first + i] = to_bf16(product);
        }
    });
}

GTR_FINISH

GTR_ENTRY(few_products, Block, const f32* queries, const bf16* rows, i64 n_queries, i64 n_rows, i64 dim, i64 tile,
          bf16* products)
    few_products(team, queries, rows, item * tile, min((item + 1) * tile, n_rows), n_queries, n_rows, dim, products);
GTR_END
