// The m rows of a sparse matrix with the highest dot product with a sparse query, exactly.
//
// Columns are numbered from the one that most rows have on. A query's columns are added up from the rarest to the most
// common one: the rare ones weigh most and have few postings. At some columns, the levels, it is looked what those that
// are left can add at most: the length of the query's rest times that of the row's rest. Once few rows can still be
// among the m best, their own entries are looked at instead of the long postings of common columns. Whichever way a
// product is found, it is the sum of the same numbers in the same order.
#pragma once

#include "gtr/sparse_rows.hpp"

GTR_BEGIN

// Products are rounded to this step, so that equal evidence is equal.
constexpr f32 TOP_STEP = 1.0f / (1 << 20);
constexpr i64 TOP_BLOCK = 64;
// What finding the rows that are left costs, in postings added, for each row that is searched.
constexpr i64 LOOK_SHARE = 4;

// The k-th largest of f(0) to f(n - 1), which are u32; k is from 1 to n.
template <class Team, class F>
GTR_FN u32 kth_largest(Team& team, i64 n, i64 k, i64 n_bits, F f) {
    u32 found = 0;
    for (i64 bit = n_bits - 1; bit >= 0; --bit) {
        const u32 trial = found | (1u << bit);
        if (team.sum(n, [&](i64 i) { return f(i) >= trial ? 1 : 0; }) >= k) found = trial;
    }
    return found;
}

// A product is exact in f64, so that it makes no difference whether a compiler fuses it with the sum.
GTR_FN f32 plus_product(f32 sum, f32 left, f32 right) {
    return static_cast<f32>(sum + static_cast<f64>(left) * right);
}

template <class Feature>
struct SparseTopM {
    const i64* query_offsets;
    const i32* query_columns;
    const f32* query_weights;
    const i64* posting_offsets;
    const i32* posting_rows;
    const f32* posting_weights;
    const i64* row_offsets;
    const i32* row_columns;
    const f32* row_weights;
    const i64* exclude;
    const Feature* query_features;
    const Feature* row_features;
    i64 n_features;
    i64 n_rows;
    i64 m;
    i64 tile;     // rows that are added up at once
    const i32* levels;  // columns, falling
    const i32* costs;   // postings whose adding costs as much as looking at a row's entries below each level
    const f32* rests;   // the length of each row's part below each level, level by level
    const i32* places;  // how many entries that part has
    i64 n_levels;
    i64 longest;  // entries of a query at most
    i32* ids;
    f32* best;
};

// The tie break, rounded like products.
template <class Feature, class Team>
GTR_FN f32 feature_dot(Team& team, i64 query, i64 row, const SparseTopM<Feature>& work) {
    const Feature* left = work.query_features + query * work.n_features;
    const Feature* right = work.row_features + row * work.n_features;
    const f32 dot = team.sum(work.n_features, [&](i64 i) { return to_f32(left[i]) * to_f32(right[i]); });
    return rint(dot / TOP_STEP);
}

// Of n rows, rising, the m best by product, tie break and smaller id: their numbers, rising, into `kept`; how many.
template <class Feature, class Team>
GTR_FN i64 keep_best(Team& team, i64 query, const SparseTopM<Feature>& work, i64 n, const i32* rows, const i32* steps,
                     f32* dots, i32* kept_rows, i32* kept_steps) {
    const i64 m = work.m;
    if (n <= m) {
        team.each(n, [&](i64 i) {
            kept_rows[i] = rows[i];
            kept_steps[i] = steps[i];
        });
        team.sync();
        return n;
    }
    const i32 last = kth_largest(team, n, m, 31, [&](i64 i) { return static_cast<u32>(steps[i]); });
    const i64 above = team.sum(n, [&](i64 i) { return steps[i] > last ? 1 : 0; });
    const i64 equal = team.sum(n, [&](i64 i) { return steps[i] == last ? 1 : 0; });
    u32 least = 0;
    i64 nearer = 0;
    const bool by_features = work.row_features && above + equal > m;
    if (by_features) {
        for (i64 i = 0; i < n; ++i) {
            if (steps[i] != last) continue;
            const f32 dot = feature_dot(team, query, rows[i], work);
            team.one([&] { dots[i] = dot; });
        }
        team.sync();
        auto key = [&](i64 i) { return steps[i] == last ? ordered_bits(dots[i]) : 0u; };
        least = kth_largest(team, n, m - above, 32, key);
        nearer = team.sum(n, [&](i64 i) { return key(i) > least ? 1 : 0; });
    }
    // Of those that tie even so, the first.
    auto ties = [&](i64 i) { return steps[i] == last && (!by_features || ordered_bits(dots[i]) == least); };
    auto beats = [&](i64 i) {
        return steps[i] > last || (by_features && steps[i] == last && ordered_bits(dots[i]) > least);
    };
    // The running number of ties in the high half, that of the others in the low one.
    team.scan(
        n, [&](i64 i) { return (static_cast<i64>(ties(i)) << 32) + beats(i); },
        [&](i64 i, i64 before) {
            const i64 tied = min(before >> 32, m - above - nearer);
            if (beats(i) || (ties(i) && (before >> 32) < m - above - nearer)) {
                const i64 place = tied + (before & 0xffffffffll);
                kept_rows[place] = rows[i];
                kept_steps[place] = steps[i];
            }
        });
    return m;
}

template <class Feature, class Team>
GTR_FN void sparse_top_m(Team& team, i64 query, const SparseTopM<Feature>& work) {
    const i64 m = work.m, start = work.query_offsets[query], n_entries = work.query_offsets[query + 1] - start;
    const i32* columns = work.query_columns + start;
    const f32* weights = work.query_weights + start;
    f32* sums = team.template scratch<f32>(work.tile);
    f32* maxima = team.template scratch<f32>(work.tile / TOP_BLOCK);
    f32* spread = team.template scratch<f32>(work.n_levels ? work.levels[0] : 0);
    i32* rows = team.template scratch<i32>(work.tile + m);
    i32* steps = team.template scratch<i32>(work.tile + m);
    f32* dots = team.template scratch<f32>(work.tile + m);
    i32* kept_rows = team.template scratch<i32>(m);
    i32* kept_steps = team.template scratch<i32>(m);
    i64* begins = team.template scratch<i64>(work.longest);
    i64* ends = team.template scratch<i64>(work.longest);
    const i64 excluded = work.exclude ? work.exclude[query] : -1;
    i64 n_kept = 0;
    for (i64 low = 0; low < work.n_rows; low += work.tile) {
        const i64 n = min(work.tile, work.n_rows - low), n_blocks = (n + TOP_BLOCK - 1) / TOP_BLOCK;
        team.each(n_entries, [&](i64 e) {
            i64 begin = work.posting_offsets[columns[e]], end = work.posting_offsets[columns[e] + 1];
            if (low > 0) begin = first_not_below(work.posting_rows, begin, end, low);
            if (low + n < work.n_rows) end = first_not_below(work.posting_rows, begin, end, low + n);
            begins[e] = begin;
            ends[e] = end;
        });
        team.each(n_blocks * TOP_BLOCK, [&](i64 i) { sums[i] = i < n && low + i != excluded ? 0 : lowest<f32>(); });
        i64 left = team.sum(n_entries, [&](i64 e) { return ends[e] - begins[e]; });
        if (left == 0) continue;
        // The least product that counts.
        f32 floor = n_kept == m ? kept_steps[0] * TOP_STEP : 0;
        for (i64 i = 1; i < n_kept && n_kept == m; ++i) floor = min(floor, kept_steps[i] * TOP_STEP);
        const f32* rests = nullptr;
        f32 rest = 0;
        i64 e = n_entries, level = 0;
        for (; level <= work.n_levels; ++level) {
            const i64 column = level < work.n_levels ? work.levels[level] : 0;
            while (e > 0 && columns[e - 1] >= column) {
                --e;
                const f32 weight = weights[e];
                const i64 begin = begins[e], length = ends[e] - begin;
                const i32* posting_rows = work.posting_rows + begin;
                const f32* posting_weights = work.posting_weights + begin;
                f32* shifted = sums - low;
                team.each(length, [&](i64 i) {
                    const i32 row = posting_rows[i];
                    shifted[row] = plus_product(shifted[row], weight, posting_weights[i]);
                });
                team.sync();
                left -= length;
            }
            // Where little is left, it is added sooner than looked at.
            if (e > 0 && left * LOOK_SHARE < n) continue;
            for (i64 block = 0; block < n_blocks; ++block) {
                const f32* part = sums + block * TOP_BLOCK;
                const f32 most = team.max(TOP_BLOCK, lowest<f32>(), [&](i64 i) { return part[i]; });
                team.one([&] { maxima[block] = most; });
            }
            team.sync();
            f32 reached = 0;
            if (n_blocks >= m) {
                reached = from_ordered_bits(
                    kth_largest(team, n_blocks, m, 32, [&](i64 i) { return ordered_bits(maxima[i]); }));
            }
            floor = max(floor, reached);
            if (e == 0) break;
            rest = sqrt(team.sum(e, [&](i64 i) { return weights[i] * weights[i]; }));
            rests = work.rests + level * work.n_rows + low;
            if (floor <= 2 * TOP_STEP) continue;
            const f32 cut = floor - 2 * TOP_STEP;
            const i64 able = team.sum(n, [&](i64 i) { return sums[i] + rest * rests[i] >= cut ? 1 : 0; });
            if (able * work.costs[level] < left) break;
        }
        // Where nothing is left to add, a product of less than half a step counts as 0.
        const f32 cut = max(floor - 2 * TOP_STEP, TOP_STEP / 4);
        auto able = [&](i64 i) { return e > 0 ? sums[i] + rest * rests[i] >= cut : sums[i] >= cut; };
        team.each(n_kept, [&](i64 i) {
            rows[i] = kept_rows[i];
            steps[i] = kept_steps[i];
        });
        // Most blocks have no such row, which is soon seen.
        i64 n_able = n_kept;
        for (i64 block = 0; block < n_blocks; ++block) {
            const i64 first = block * TOP_BLOCK, n_block = min(TOP_BLOCK, n - first);
            if (team.sum(n_block, [&](i64 i) { return able(first + i) ? 1 : 0; }) == 0) continue;
            n_able += team.scan(
                n_block, [&](i64 i) { return able(first + i); },
                [&](i64 i, i64 before) {
                    if (able(first + i)) rows[n_able + before] = static_cast<i32>(low + first + i);
                });
        }
        if (e > 0) {
            const i64 common = work.levels[level];
            team.each(common, [&](i64 i) { spread[i] = 0; });
            team.sync();
            team.each(e, [&](i64 i) { spread[columns[i]] = weights[i]; });
            team.sync();
            team.each(n_able - n_kept, [&](i64 i) {
                const i64 row = rows[n_kept + i], first = work.row_offsets[row];
                i64 entry = first + work.places[level * work.n_rows + row];
                f32 sum = sums[row - low];
                while (entry > first) {
                    --entry;
                    sum = plus_product(sum, spread[work.row_columns[entry]], work.row_weights[entry]);
                }
                sums[row - low] = sum;
            });
        }
        team.each(n_able - n_kept, [&](i64 i) {
            steps[n_kept + i] = static_cast<i32>(rint(sums[rows[n_kept + i] - low] / TOP_STEP));
        });
        team.sync();
        n_kept = keep_best(team, query, work, n_able, rows, steps, dots, kept_rows, kept_steps);
    }
    // By product, then tie break, then id.
    if (work.row_features) {
        for (i64 i = 0; i < n_kept; ++i) {
            const i64 equal = team.sum(n_kept, [&](i64 j) { return kept_steps[i] == kept_steps[j] ? 1 : 0; });
            const f32 dot = equal > 1 ? feature_dot(team, query, kept_rows[i], work) : 0;
            team.one([&] { dots[i] = dot; });
        }
    } else {
        team.each(n_kept, [&](i64 i) { dots[i] = 0; });
    }
    i32* ids = work.ids + query * m;
    f32* best = work.best + query * m;
    team.each(m, [&](i64 i) {
        ids[i] = -1;
        best[i] = lowest<f32>();
    });
    team.sync();
    team.each(n_kept, [&](i64 i) {
        if (kept_steps[i] <= 0) return;
        i64 place = 0;
        for (i64 j = 0; j < n_kept; ++j) {
            const bool equal = kept_steps[j] == kept_steps[i];
            place += kept_steps[j] > kept_steps[i] || (equal && (dots[j] > dots[i] || (dots[j] == dots[i] && j < i)));
        }
        ids[place] = kept_rows[i];
        best[place] = kept_steps[i] * TOP_STEP;
    });
}

GTR_FINISH

GTR_ENTRY(sparse_top_m_f32, Warp, const i64* query_offsets, const i32* query_columns, const f32* query_weights,
          const i64* posting_offsets, const i32* posting_rows, const f32* posting_weights, const i64* row_offsets,
          const i32* row_columns, const f32* row_weights, const i64* exclude, const f32* query_features,
          const f32* row_features, i64 n_features, i64 n_rows, i64 m, i64 tile, const i32* levels,
          const i32* costs, const f32* rests, const i32* places,
          i64 n_levels, i64 longest, i32* ids, f32* best)
    sparse_top_m(team, item, SparseTopM<f32>{query_offsets, query_columns, query_weights, posting_offsets, posting_rows,
                                            posting_weights, row_offsets, row_columns, row_weights, exclude,
                                            query_features, row_features, n_features, n_rows, m, tile, levels, costs,
                                            rests, places, n_levels, longest, ids, best});
GTR_END

GTR_ENTRY(sparse_top_m_bf16, Warp, const i64* query_offsets, const i32* query_columns, const f32* query_weights,
          const i64* posting_offsets, const i32* posting_rows, const f32* posting_weights, const i64* row_offsets,
          const i32* row_columns, const f32* row_weights, const i64* exclude, const bf16* query_features,
          const bf16* row_features, i64 n_features, i64 n_rows, i64 m, i64 tile, const i32* levels,
          const i32* costs, const f32* rests, const i32* places,
          i64 n_levels, i64 longest, i32* ids, f32* best)
    sparse_top_m(team, item, SparseTopM<bf16>{query_offsets, query_columns, query_weights, posting_offsets, posting_rows,
                                            posting_weights, row_offsets, row_columns, row_weights, exclude,
                                            query_features, row_features, n_features, n_rows, m, tile, levels, costs,
                                            rests, places, n_levels, longest, ids, best});
GTR_END

GTR_ENTRY(sparse_top_m_f16, Warp, const i64* query_offsets, const i32* query_columns, const f32* query_weights,
          const i64* posting_offsets, const i32* posting_rows, const f32* posting_weights, const i64* row_offsets,
          const i32* row_columns, const f32* row_weights, const i64* exclude, const f16* query_features,
          const f16* row_features, i64 n_features, i64 n_rows, i64 m, i64 tile, const i32* levels,
          const i32* costs, const f32* rests, const i32* places,
          i64 n_levels, i64 longest, i32* ids, f32* best)
    sparse_top_m(team, item, SparseTopM<f16>{query_offsets, query_columns, query_weights, posting_offsets, posting_rows,
                                            posting_weights, row_offsets, row_columns, row_weights, exclude,
                                            query_features, row_features, n_features, n_rows, m, tile, levels, costs,
                                            rests, places, n_levels, longest, ids, best});
GTR_END

GTR_ENTRY(rests_at_levels, Warp, const i64* offsets, const i32* columns, const f32* weights, const i32* levels, i64 n_levels,
          i64 n_rows, f32* rests, i32* places)
    const i64 first = offsets[item], last = offsets[item + 1];
    team.each(n_levels, [&](i64 level) {
        f32 squares = 0;
        i64 e = first;
        for (; e < last && columns[e] < levels[level]; ++e) squares += weights[e] * weights[e];
        places[level * n_rows + item] = static_cast<i32>(e - first);
        // Rounded up, as it is a bound.
        rests[level * n_rows + item] = sqrt(squares) * (1 + 1e-4f);
    });
GTR_END
