// Personalised PageRank of one query on its own candidates.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// Rows of a tile: what a vector of 512 bits holds of f32.
constexpr i64 pagerank_rows = 16;
// Entries of a row that are summed in one go.
constexpr i32 pagerank_part = 32;
// Runs that the candidates are cut into to be sorted, and classes of length that they are sorted by, at most.
constexpr i64 pagerank_runs = 32;
constexpr i64 pagerank_classes = 384;

// Rows of up to 31 entries have a class of their own, longer ones share one with rows shorter by 1/16 at most.
GTR_FN i64 length_class(i32 length) {
    i64 shift = 0;
    while (length >> shift > 31) ++shift;
    return 16 * shift + (length >> shift);
}

// Sorts rows from long to short, those of one class in their order, and gives how many are longer than 0. Each run of
// rows is counted and then placed by one thread, so that no two threads meet.
template <class Team, class F>
GTR_FN i64 sort_by_length(Team& team, i64 n, F length, i32* place, i32* order) {
    const i64 classes = length_class(team.max(n, i32(0), length)) + 1;
    const i64 runs = min(team.size(), pagerank_runs);
    const i64 rows = (n + runs - 1) / runs;
    i32* next = team.template scratch<i32>(classes * runs);
    auto slot = [&](i64 i, i64 run) { return (classes - 1 - length_class(length(i))) * runs + run; };
    team.each(runs, [&](i64 run) {
        for (i64 i = run; i < classes * runs; i += runs) next[i] = 0;
        for (i64 i = run * rows; i < min(n, (run + 1) * rows); ++i) ++next[slot(i, run)];
    });
    team.scan(
        classes * runs, [&](i64 i) { return next[i]; }, [&](i64 i, i64 before) { next[i] = static_cast<i32>(before); });
    const i64 kept = next[(classes - 1) * runs];
    team.sync();
    team.each(runs, [&](i64 run) {
        for (i64 i = run * rows; i < min(n, (run + 1) * rows); ++i) {
            place[i] = next[slot(i, run)]++;
            order[place[i]] = static_cast<i32>(i);
        }
    });
    team.sync();
    return kept;
}

// Solves x = (1 - damping) h + damping W (x / d), until the sum of |(1 - damping) h + damping W (x / d) - x| falls below
// the tolerance.
//
// The query's candidates are the rows from first to last of the batch; columns hold numbers of the batch. Candidates
// without an edge have the degree 0 and give their mass to h. Where an edge leaves the query's candidates, `iterations`
// becomes -1.
//
// Since W is symmetric, the eigenvalues of damping W / d are real and within +-damping: Chebyshev's iteration needs
// about half the steps of x <- (1 - damping) h + damping W (x / d) to the same residual. What candidates without an edge
// have is known beforehand, so that the walk goes over the others only. It goes over y = x / d, with damping and degrees
// folded into h and W, on rows that are sorted by their length and lie in tiles column by column; and it follows y's
// residual from step to step, so that this is as exact as f32 allows however small it becomes.
template <class Team>
GTR_FN void walk(Team& team, i64 first, i64 last, const i64* row_offsets, const i32* columns, const f32* weights,
                 const f32* degrees, const f32* personalization, f64 damping, f64 tolerance, i64 max_iterations,
                 f32* ranks, i64* iterations, u8* converged) {
    constexpr i64 C = pagerank_rows;
    const i64 n = last - first;
    row_offsets += first;
    degrees += first;
    personalization += first;
    ranks += first;
    i32* place = team.template scratch<i32>(n);
    i32* order = team.template scratch<i32>(n);

    const f64 mass = team.sum(n, [&](i64 i) { return static_cast<f64>(personalization[i]); });
    const f64 scale = mass > 0 ? 1 / mass : 0, uniform = mass > 0 ? 0 : 1.0 / n;
    auto h = [&](i64 i) { return personalization[i] * scale + uniform; };
    auto length = [&](i64 i) { return degrees[i] > 0 ? static_cast<i32>(row_offsets[i + 1] - row_offsets[i]) : 0; };
    const f64 edgeless_h = team.sum(n, [&](i64 i) { return length(i) ? 0.0 : h(i); });
    const f64 start = 1 / (1 - damping * edgeless_h);  // times h: where the walk starts, with the right sum

    const i64 kept = sort_by_length(team, n, length, place, order);
    const i64 n_tiles = (kept + C - 1) / C, padded = (n + C - 1) / C * C;
    f32* now = team.template scratch<f32>(padded);              // the residual of y; to begin with, y itself
    f32* before = team.template scratch<f32>(padded);           // that of the step before
    f32* sum = team.template scratch<f32>(n_tiles * C);         // y, but for what `now` is
    f32* sum_before = team.template scratch<f32>(n_tiles * C);  // that of the step before
    f32* size = team.template scratch<f32>(n_tiles * C);        // d
    i64* starts = team.template scratch<i64>(n_tiles);
    i32* lengths = team.template scratch<i32>(n_tiles);
    team.each(n_tiles, [&](i64 tile) {
        i32 longest = 0;
        for (i64 at = tile * C; at < min(kept, (tile + 1) * C); ++at) longest = max(longest, length(order[at]));
        lengths[tile] = longest;
    });
    const i64 n_entries = team.scan(
        n_tiles, [&](i64 tile) { return lengths[tile] * C; }, [&](i64 tile, i64 before) { starts[tile] = before; });
    i32* sources = team.template scratch<i32>(n_entries);
    f32* shares = team.template scratch<f32>(n_entries);
    // In the order in which edges lie in memory.
    const i64 outside = team.sum(padded, [&](i64 i) {
        const i64 at = i < n ? place[i] : i;
        now[at] = before[at] = 0;
        if (at >= n_tiles * C) return i64(0);
        i32* source = sources + starts[at / C] + at % C;
        f32* share = shares + starts[at / C] + at % C;
        i64 many = 0, wrong = 0;
        size[at] = sum[at] = sum_before[at] = 0;
        if (at < kept) {
            size[at] = degrees[i];
            now[at] = before[at] = static_cast<f32>(start * h(i)) / degrees[i];
            many = length(i);
            const f32 scaled = static_cast<f32>(damping) / degrees[i];
            const i32* column = columns + row_offsets[i];
            const f32* weight = weights + row_offsets[i];
            for (i64 k = 0; k < many; ++k) {
                const u64 c = column[k] - first;
                wrong += c >= u64(n);
                source[k * C] = place[c < u64(n) ? c : 0];
                share[k * C] = scaled * weight[k];
            }
        }
        for (i64 k = many; k < lengths[at / C]; ++k) {
            source[k * C] = 0;
            share[k * C] = 0;
        }
        return wrong;
    });
    if (outside) {
        team.one([&] {
            iterations[0] = -1;
            converged[0] = 0;
        });
        return;
    }

    i64 steps = 0;
    bool done = n == 0;
    f64 stride = 1;
    while (!done && steps < max_iterations) {
        // The first step turns y into its residual, the second is one of the plain iteration.
        if (steps >= 2) stride = 1 / (1 - damping * damping / 4 * (steps == 2 ? 2 : stride));
        const f32 far = static_cast<f32>(stride), back = static_cast<f32>(steps == 0 ? -damping : 1 - stride);
        const f32 on = static_cast<f32>(stride - 1);
        typename Team::template Lanes<f32, C> residual;
        team.template tiles<C>(n_tiles, [&](i64 tile) {
            typename Team::template Lanes<f32, C> moved;
            const i64 row = tile * C;
            const i32* source = sources + starts[tile];
            const f32* share = shares + starts[tile];
            // Long rows are summed by parts, since the rounding of a sum grows with its length.
            for (i32 k = 0; k < lengths[tile];) {
                typename Team::template Lanes<f32, C> part;
                for (const i32 end = min(lengths[tile], k + pagerank_part); k < end; ++k, source += C, share += C) {
                    team.template lanes<C>([&](i64 lane) { part[lane] += share[lane] * now[source[lane]]; });
                }
                team.template lanes<C>([&](i64 lane) { moved[lane] += part[lane]; });
            }
            team.template lanes<C>([&](i64 lane) {
                const i64 i = row + lane;
                const f32 next = far * moved[lane] + back * before[i];
                residual[lane] += size[i] * abs(next);
                sum_before[i] = sum[i] + (far * now[i] + on * (sum[i] - sum_before[i]));
                before[i] = next;
            });
        });
        const f64 total = team.sum_lanes(residual);
        f32* old = now;
        now = before;
        before = old;
        old = sum;
        sum = sum_before;
        sum_before = old;
        done = total < tolerance;
        ++steps;
    }
    // y and its residual: one step more of the plain iteration. What f32 lost of their sum over many steps is put back.
    auto rank = [&](i64 i) {
        const i64 at = place[i];
        return at < kept ? size[at] * (sum[at] + now[at]) : static_cast<f32>((1 - damping) * start * h(i));
    };
    const f64 all = team.sum(n, [&](i64 i) { return static_cast<f64>(rank(i)); });
    team.each(n, [&](i64 i) { ranks[i] = static_cast<f32>(rank(i) / all); });
    team.one([&] {
        iterations[0] = steps;
        converged[0] = done;
    });
}

GTR_FINISH

GTR_ENTRY(pagerank, Block, const i64* offsets, const i64* row_offsets, const i32* columns, const f32* weights,
          const f32* degrees, const f32* personalization, f64 damping, f64 tolerance, i64 max_iterations, f32* ranks,
          i64* iterations, u8* converged)
    walk(team, offsets[item], offsets[item + 1], row_offsets, columns, weights, degrees, personalization, damping,
         tolerance, max_iterations, ranks, iterations + item, converged + item);
GTR_END

// For queries with so many candidates that one block would be slow; queries come one after the other.
GTR_ENTRY(pagerank_grid, Grid, const i64* offsets, const i64* row_offsets, const i32* columns, const f32* weights,
          const f32* degrees, const f32* personalization, f64 damping, f64 tolerance, i64 max_iterations, f32* ranks,
          i64* iterations, u8* converged)
    walk(team, offsets[item], offsets[item + 1], row_offsets, columns, weights, degrees, personalization, damping,
         tolerance, max_iterations, ranks, iterations + item, converged + item);
GTR_END
