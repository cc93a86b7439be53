// What candidates hold of a query's terms together with their neighbours.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// Terms that are looked at side by side.
constexpr i64 pooled_lanes = 16;

// Scores and shares of one query's candidates, which are the rows from first to last of the batch: each term counts by
// the greatest weight among a candidate and its neighbours, a neighbour's times the edge's factor.
//
// Where an edge leaves the query's candidates, `wrong` becomes 1 and nothing else is written.
template <class Team>
GTR_FN void pool_terms(Team& team, i64 first, i64 last, const i64* row_offsets, const i32* columns, const f32* factors,
                       i64 n_terms, const i32* terms, const i32* occurrences, const f32* idf, const f32* weights,
                       f32* scores, f32* shares, u8* wrong) {
    constexpr i64 C = pooled_lanes;
    const i64 n = last - first;
    row_offsets += first;
    scores += first;
    shares += first;
    const i64 start = row_offsets[0];
    const i64 outside = team.sum(row_offsets[n] - start, [&](i64 e) {
        return i64(static_cast<u32>(columns[start + e]) - static_cast<u32>(first) >= static_cast<u32>(n));
    });
    team.one([&] { wrong[0] = outside > 0; });
    if (outside) return;

    // Rows of whole vectors, so that none reaches into the next one.
    const i64 width = (n_terms + C - 1) / C * C;
    f32* own = team.template scratch<f32>(n * width);
    f32* most = team.template scratch<f32>(n * width);
    f32* held = team.template scratch<f32>(n * width);
    f32* counted = team.template scratch<f32>(width);
    f32* importance = team.template scratch<f32>(width);
    team.each(n, [&](i64 t) {
        for (i64 k = 0; k < width; ++k) own[t * width + k] = k < n_terms ? weights[t * n_terms + k] : 0.0f;
    });
    team.each(width, [&](i64 k) {
        importance[k] = k < n_terms ? idf[terms[k]] : 0.0f;
        counted[k] = k < n_terms ? occurrences[k] * importance[k] : 0.0f;
    });
    team.sync();
    for (i64 begin = 0; begin < width; begin += C) {
        team.template tiles<C>(n, [&](i64 t) {
            const f32* mine = own + t * width + begin;
            typename Team::template Lanes<f32, C> greatest, share;
            team.template lanes<C>([&](i64 lane) {
                greatest[lane] = mine[lane];
                share[lane] = mine[lane] > 0 ? 1.0f : 0.0f;
            });
            for (i64 e = row_offsets[t]; e < row_offsets[t + 1]; ++e) {
                const f32 factor = factors[e];
                const f32* theirs = own + (columns[e] - first) * width + begin;
                team.template lanes<C>([&](i64 lane) {
                    const f32 weight = theirs[lane];
                    greatest[lane] = max(greatest[lane], factor * weight);
                    share[lane] = max(share[lane], weight > 0 ? factor : 0.0f);
                });
                end_step();
            }
            team.template lanes<C>([&](i64 lane) {
                most[t * width + begin + lane] = greatest[lane] * counted[begin + lane];
                held[t * width + begin + lane] = share[lane] * importance[begin + lane];
            });
        });
    }
    const f64 all = team.sum(n_terms, [&](i64 k) { return static_cast<f64>(importance[k]); });
    team.each(n, [&](i64 t) {
        f64 score = 0, share = 0;
#pragma omp simd reduction(+ : score, share)
        for (i64 k = 0; k < width; ++k) {
            score += most[t * width + k];
            share += held[t * width + k];
        }
        scores[t] = static_cast<f32>(score);
        shares[t] = static_cast<f32>(all > 0 ? share / all : 0.0);
    });
}

GTR_FINISH

GTR_ENTRY(pooled_terms, Block, const i64* offsets, const i64* row_offsets, const i32* columns, const f32* factors,
          const i64* query_offsets, const i32* terms, const i32* occurrences, const f32* idf, const i64* starts,
          const f32* weights, f32* scores, f32* shares, u8* wrong)
    const i64 start = query_offsets[item];
    pool_terms(team, offsets[item], offsets[item + 1], row_offsets, columns, factors, query_offsets[item + 1] - start,
               terms + start, occurrences + start, idf, weights + starts[item], scores, shares, wrong + item);
GTR_END
