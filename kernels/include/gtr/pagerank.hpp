// Personalised PageRank of one query on its own candidates.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// Iterates x <- (1 - damping) h + damping W (x / d) until the sum of |change| falls below the tolerance.
//
// The query's candidates are the rows from first to last of the batch; columns hold numbers of the batch. Candidates
// without an edge have the degree 0 and give their mass to h. Real is what the walk is computed in.
template <class Real, class Team>
GTR_FN void pagerank(Team& team, i64 first, i64 last, const i64* row_offsets, const i32* columns, const f32* weights,
                     const f32* degrees, const f32* personalization, f64 damping, f64 tolerance, i64 max_iterations,
                     f32* ranks, i64* iterations, u8* converged) {
    const i64 n = last - first;
    Real* h = team.template scratch<Real>(n);
    Real* x = team.template scratch<Real>(n);
    Real* shares = team.template scratch<Real>(n);
    // An empty query has converged.
    f64 mass = team.sum(n, [&](i64 i) { return static_cast<f64>(personalization[first + i]); });
    team.each(n, [&](i64 i) {
        h[i] = mass > 0 ? static_cast<Real>(personalization[first + i] / mass) : static_cast<Real>(1.0 / n);
        x[i] = h[i];
    });
    i64 steps = 0;
    bool done = n == 0;
    while (!done && steps < max_iterations) {
        team.each(n, [&](i64 i) {
            f32 degree = degrees[first + i];
            shares[i] = degree > 0 ? x[i] / static_cast<Real>(degree) : Real(0);
        });
        f64 lost = team.sum(n, [&](i64 i) { return degrees[first + i] > 0 ? 0.0 : static_cast<f64>(x[i]); });
        const Real to_h = static_cast<Real>(1 - damping + damping * lost);
        const Real along = static_cast<Real>(damping);
        f64 change = team.sum(n, [&](i64 i) {
            Real arriving = 0;
            for (i64 e = row_offsets[first + i]; e < row_offsets[first + i + 1]; ++e) {
                arriving += static_cast<Real>(weights[e]) * shares[columns[e] - first];
            }
            Real moved = to_h * h[i] + along * arriving;
            Real difference = moved - x[i];
            x[i] = moved;
            return static_cast<f64>(abs(difference));
        });
        done = change < tolerance;
        ++steps;
    }
    team.each(n, [&](i64 i) { ranks[first + i] = static_cast<f32>(x[i]); });
    team.one([&] {
        iterations[0] = steps;
        converged[0] = done;
    });
}

GTR_FINISH

GTR_ENTRY(pagerank_f64, Block, const i64* offsets, const i64* row_offsets, const i32* columns, const f32* weights,
          const f32* degrees, const f32* personalization, f64 damping, f64 tolerance, i64 max_iterations, f32* ranks,
          i64* iterations, u8* converged)
    pagerank<f64>(team, offsets[item], offsets[item + 1], row_offsets, columns, weights, degrees, personalization,
                  damping, tolerance, max_iterations, ranks, iterations + item, converged + item);
GTR_END

GTR_ENTRY(pagerank_f32, Block, const i64* offsets, const i64* row_offsets, const i32* columns, const f32* weights,
          const f32* degrees, const f32* personalization, f64 damping, f64 tolerance, i64 max_iterations, f32* ranks,
          i64* iterations, u8* converged)
    pagerank<f32>(team, offsets[item], offsets[item + 1], row_offsets, columns, weights, degrees, personalization,
                  damping, tolerance, max_iterations, ranks, iterations + item, converged + item);
GTR_END
