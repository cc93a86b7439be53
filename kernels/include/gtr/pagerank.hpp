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

// Sorts the rows that are kept (place not below 0) from long to short, those of one class in their order; gives how
// many there are. Each run of rows is counted and then placed by one thread, so that no two threads meet.
template <class Team>
GTR_FN i64 sort_by_length(Team& team, i64 n, const i32* counts, i32* place, i32* order) {
    const i64 classes = length_class(team.max(n, 0, [&](i64 i) { return counts[i]; })) + 1;
    const i64 runs = min(team.size(), pagerank_runs);
    const i64 rows = (n + runs - 1) / runs;
    i32* next = team.template scratch<i32>(classes * runs);
    auto slot = [&](i64 i, i64 run) { return (classes - 1 - length_class(counts[i])) * runs + run; };
    team.each(runs, [&](i64 run) {
        for (i64 i = run; i < classes * runs; i += runs) next[i] = 0;
        for (i64 i = run * rows; i < min(n, (run + 1) * rows); ++i) {
            if (place[i] >= 0) ++next[slot(i, run)];
        }
    });
    const i64 kept = team.scan(
        classes * runs, [&](i64 i) { return next[i]; }, [&](i64 i, i64 before) { next[i] = static_cast<i32>(before); });
    team.each(runs, [&](i64 run) {
        for (i64 i = run * rows; i < min(n, (run + 1) * rows); ++i) {
            if (place[i] < 0) continue;
            place[i] = next[slot(i, run)]++;
            order[place[i]] = static_cast<i32>(i);
        }
    });
    team.sync();
    return kept;
}

// Iterates x <- (1 - damping) h + damping W (x / d) until the sum of |change| falls below the tolerance.
//
// The query's candidates are the rows from first to last of the batch; columns hold numbers of the batch. Candidates
// without an edge have the degree 0 and give their mass to h. Where an edge leaves the query's candidates, `iterations`
// becomes -1.
//
// The walk goes over y = x / d, with damping and degrees folded into h and W, on rows that are sorted by their length
// and lie in tiles column by column. It follows y's change from step to step, so that the sum of changes is as exact as
// f32 allows however small it becomes. Two kinds of candidates need no row:
//  - those without an edge: the share of h that they hold takes what they give away, in closed form;
//  - leaves: those with one edge and h = 0. What a leaf has is damping times what its neighbour had a step before, so the
//    neighbour gets it back two steps later, and its own change is the neighbour's of a step before.
template <class Team>
GTR_FN void walk(Team& team, i64 first, i64 last, const i64* row_offsets, const i32* columns, const f32* weights,
                     const f32* degrees, const f32* personalization, f64 damping, f64 tolerance, i64 max_iterations,
                     f32* ranks, i64* iterations, u8* converged) {
    constexpr i64 C = pagerank_rows;
    const i64 n = last - first;
    const i64 padded = (n + C - 1) / C * C;
    row_offsets += first;
    degrees += first;
    personalization += first;
    ranks += first;
    f32* now = team.template scratch<f32>(padded);     // the last change of y
    f32* before = team.template scratch<f32>(padded);  // the one before
    f32* sum = team.template scratch<f32>(padded);     // y
    f32* own = team.template scratch<f32>(padded);     // h / d
    f32* size = team.template scratch<f32>(padded);    // d
    f32* leaves = team.template scratch<f32>(padded);  // how much leaves change for each change of y
    f32* back = team.template scratch<f32>(padded);    // what leaves give back of y of the step before
    i32* place = team.template scratch<i32>(n);          // among the rows that are kept; -1 for others
    i32* order = team.template scratch<i32>(n);
    i32* counts = team.template scratch<i32>(n);

    const f64 mass = team.sum(n, [&](i64 i) { return static_cast<f64>(personalization[i]); });
    auto h = [&](i64 i) { return mass > 0 ? personalization[i] / mass : 1.0 / n; };
    auto inside = [&](i64 c) { return c >= 0 && c < n; };
    auto length = [&](i64 i) { return row_offsets[i + 1] - row_offsets[i]; };
    auto edgeless = [&](i64 i) { return !(degrees[i] > 0); };
    auto unasked = [&](i64 i) { return mass > 0 && personalization[i] == 0; };
    team.each(n, [&](i64 i) {
        bool kept = !edgeless(i);
        if (kept && length(i) == 1 && unasked(i)) {
            i64 c = columns[row_offsets[i]] - first;
            kept = !inside(c) || c == i || (length(c) == 1 && unasked(c));
        }
        place[i] = kept ? 0 : -1;
    });
    team.sync();
    const i64 outside = team.sum(n, [&](i64 i) {
        i64 wrong = 0;
        i32 count = 0;
        for (i64 e = row_offsets[i]; e < row_offsets[i + 1]; ++e) {
            i64 c = columns[e] - first;
            if (!inside(c)) ++wrong;
            else count += place[c] >= 0;
        }
        counts[i] = count;
        return wrong;
    });
    if (outside) {
        team.one([&] {
            iterations[0] = -1;
            converged[0] = 0;
        });
        return;
    }
    const i64 kept = sort_by_length(team, n, counts, place, order);
    const i64 n_tiles = (kept + C - 1) / C;
    i64* starts = team.template scratch<i64>(n_tiles);
    i32* lengths = team.template scratch<i32>(n_tiles);
    team.each(n_tiles, [&](i64 tile) {
        i32 longest = 0;
        for (i64 at = tile * C; at < min(kept, (tile + 1) * C); ++at) longest = max(longest, counts[order[at]]);
        lengths[tile] = longest;
    });
    const i64 n_entries = team.scan(
        n_tiles, [&](i64 tile) { return lengths[tile] * C; }, [&](i64 tile, i64 start) { starts[tile] = start; });
    i32* sources = team.template scratch<i32>(n_entries);
    f32* shares = team.template scratch<f32>(n_entries);
    team.each(n_tiles * C, [&](i64 at) {
        i64 entry = starts[at / C] + at % C;
        const i64 end = entry + lengths[at / C] * C;
        f32 h_share = 0, degree = 0, leaf_share = 0, scale = 0;
        if (at < kept) {
            const i64 i = order[at];
            degree = degrees[i];
            scale = static_cast<f32>(damping) / degree;
            h_share = static_cast<f32>(h(i)) / degree;
            for (i64 e = row_offsets[i]; e < row_offsets[i + 1]; ++e) {
                const i64 c = columns[e] - first;
                const f32 weight = weights[e];
                if (place[c] >= 0) {
                    sources[entry] = place[c];
                    shares[entry] = scale * weight;
                    entry += C;
                } else if (!edgeless(c)) {
                    leaf_share += static_cast<f32>(damping) * weight * (weight / degrees[c]);
                }
            }
        }
        for (; entry < end; entry += C) {
            sources[entry] = 0;
            shares[entry] = 0;
        }
        now[at] = sum[at] = own[at] = h_share;
        before[at] = 0;
        size[at] = degree;
        leaves[at] = leaf_share;
        back[at] = leaf_share * scale;
    });
    const f64 edgeless_h = team.sum(n, [&](i64 i) { return edgeless(i) ? h(i) : 0.0; });

    i64 steps = 0;
    bool done = n == 0;
    f64 to_h = 1;  // what the last step gave to h
    while (!done && steps < max_iterations) {
        const f64 last_to_h = to_h;
        to_h = 1 - damping + damping * last_to_h * edgeless_h;
        const f32 restart = static_cast<f32>(to_h - last_to_h);
        typename Team::template Lanes<f32, C> change;
        team.template tiles<C>(n_tiles, [&](i64 tile) {
            typename Team::template Lanes<f32, C> moved;
            const i64 row = tile * C;
            team.template lanes<C>(
                [&](i64 lane) { moved[lane] = restart * own[row + lane] + back[row + lane] * before[row + lane]; });
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
                change[lane] += size[i] * abs(moved[lane]) + leaves[i] * abs(now[i]);
                sum[i] += moved[lane];
                before[i] = moved[lane];
            });
        });
        const f64 total = team.sum_lanes(change) + abs(to_h - last_to_h) * edgeless_h;
        f32* old = now;
        now = before;
        before = old;
        done = total < tolerance;
        ++steps;
    }
    team.each(n, [&](i64 i) {
        f64 rank = to_h * h(i);
        if (place[i] >= 0) {
            rank = size[place[i]] * sum[place[i]];
        } else if (!edgeless(i)) {
            const i64 e = row_offsets[i];
            const i64 neighbor = place[columns[e] - first];
            rank = damping * weights[e] * (sum[neighbor] - now[neighbor]);
        }
        ranks[i] = static_cast<f32>(rank);
    });
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
