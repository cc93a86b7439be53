// The best tables of a query by its semantic and lexical scores.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// Tables whose greatest score is kept beside the scores.
constexpr i64 seeds_block = 32;

// The number in order of a score of -inf, which comes first.
constexpr u32 seeds_none = 0x007fffffu;

// A key that n of all keys reach and that ties are counted at: the n-th greatest one, or one that exactly n reach.
template <class Team>
GTR_FN u32 seeds_threshold(Team& team, const u32* keys, i64 n_keys, i64 n) {
    u32 threshold = 0;
    for (i32 bit = 31; bit >= 0; --bit) {
        const u32 trial = threshold | (1u << bit);
        const i32 reached = team.sum(n_keys, [&](i64 i) { return static_cast<i32>(keys[i] >= trial); });
        if (reached >= n) threshold = trial;
        if (reached == n) break;
    }
    return threshold;
}

// The reciprocal of the greatest score of a row, of the tables that are alive; not below 0.
template <class Team>
GTR_FN f32 seeds_unit(Team& team, const f32* row, const u8* alive, i64 n) {
    f32 greatest = 0;
    if (alive) {
        greatest = team.max(n, 0.0f, [&](i64 i) { return alive[i] ? row[i] : 0.0f; });
    } else {
        greatest = team.max(n, 0.0f, [&](i64 i) { return row[i]; });
    }
    return 1.0f / max(greatest, 1.17549435e-38f);
}

template <class Team, class F>
GTR_FN void seeds_fill(Team& team, const u8* alive, i64 n, f32* mixed, F score) {
    const f32 none = lowest<f32>();
    if (alive) {
        team.each(n, [&](i64 i) {
            const f32 value = score(i);
            mixed[i] = alive[i] ? value : none;
        });
    } else {
        team.each(n, [&](i64 i) { mixed[i] = score(i); });
    }
}

// Mixes the two rows and takes the n best tables, by rising number; count says how many there are, the rest is
// untouched. Either row may be null. Scores other than semantic ones alone are clamped at 0 and divided by their best.
//
// Blocks of tables have their greatest score noted. The n-th greatest of these is one that n tables reach, so only
// blocks that reach it are looked into.
template <class Team>
GTR_FN void best_mixed(Team& team, const f32* semantic, const f32* lexical, const u8* alive, f64 mix, i64 n_tables,
                       i64 n, i32* ids, f32* scores, i64* count) {
    f32* mixed = team.template scratch<f32>(n_tables);
    if (!lexical) {
        // Negative zeros become positive ones, so that they tie.
        seeds_fill(team, alive, n_tables, mixed, [&](i64 i) { return semantic[i] + 0.0f; });
    } else if (!semantic) {
        const f32 unit = seeds_unit(team, lexical, alive, n_tables);
        seeds_fill(team, alive, n_tables, mixed, [&](i64 i) { return max(0.0f, lexical[i]) * unit; });
    } else {
        const f32 share = static_cast<f32>(mix) * seeds_unit(team, semantic, alive, n_tables);
        const f32 rest = static_cast<f32>(1 - mix) * seeds_unit(team, lexical, alive, n_tables);
        seeds_fill(team, alive, n_tables, mixed,
                   [&](i64 i) { return share * max(0.0f, semantic[i]) + rest * max(0.0f, lexical[i]); });
    }
    team.sync();

    const i64 n_blocks = (n_tables + seeds_block - 1) / seeds_block;
    u32* maxima = team.template scratch<u32>(n_blocks);
    team.each(n_blocks, [&](i64 block) {
        const f32* own = mixed + block * seeds_block;
        f32 greatest = lowest<f32>();
        if ((block + 1) * seeds_block <= n_tables) {
#pragma omp simd reduction(max : greatest)
            for (i64 i = 0; i < seeds_block; ++i) greatest = greatest < own[i] ? own[i] : greatest;
        } else {
            for (i64 i = 0; i < n_tables - block * seeds_block; ++i) greatest = max(greatest, own[i]);
        }
        maxima[block] = ordered_bits(greatest);
    });
    const u32 least = max(seeds_none + 1, n < n_blocks ? seeds_threshold(team, maxima, n_blocks, n) : 0u);

    i32* blocks = team.template scratch<i32>(n_blocks);
    const i64 n_promising = team.scan(
        n_blocks, [&](i64 block) { return static_cast<i64>(maxima[block] >= least); },
        [&](i64 block, i64 place) {
            if (maxima[block] >= least) blocks[place] = static_cast<i32>(block);
        });
    i32* found = team.template scratch<i32>(n_tables);
    u32* keys = team.template scratch<u32>(n_tables);
    const i64 n_found = team.scan(
        n_promising,
        [&](i64 place) {
            const i64 first = blocks[place] * seeds_block, last = min(first + seeds_block, n_tables);
            i32 reaching = 0;
            for (i64 i = first; i < last; ++i) reaching += ordered_bits(mixed[i]) >= least;
            return static_cast<i64>(reaching);
        },
        [&](i64 place, i64 before) {
            const i64 first = blocks[place] * seeds_block, last = min(first + seeds_block, n_tables);
            for (i64 i = first; i < last; ++i) {
                const u32 key = ordered_bits(mixed[i]);
                if (key >= least) {
                    found[before] = static_cast<i32>(i);
                    keys[before++] = key;
                }
            }
        });

    // Of those that tie for the last places the first ones are taken.
    const u32 last = n < n_found ? seeds_threshold(team, keys, n_found, n) : 0u;
    const i64 above = team.sum(n_found, [&](i64 i) { return static_cast<i32>(keys[i] > last); });
    const i64 free = n - above;
    // The running number of those above goes into the upper half, that of ties into the lower one.
    const i64 both = team.scan(
        n_found,
        [&](i64 i) { return (static_cast<i64>(keys[i] > last) << 32) + (keys[i] == last ? 1 : 0); },
        [&](i64 i, i64 before) {
            const i64 ties = before & 0xffffffffll, place = (before >> 32) + min(ties, free);
            if (keys[i] > last || (keys[i] == last && ties < free)) {
                ids[place] = found[i];
                scores[place] = mixed[found[i]];
            }
        });
    team.one([&] { count[0] = above + min(both & 0xffffffffll, free); });
}

GTR_FINISH

GTR_ENTRY(best_mixed, Block, const f32* semantic, const f32* lexical, const u8* alive, f64 mix, i64 n_tables, i64 n,
          i32* ids, f32* scores, i64* counts)
    best_mixed(team, semantic ? semantic + item * n_tables : nullptr, lexical ? lexical + item * n_tables : nullptr,
               alive, mix, n_tables, n, ids + item * n, scores + item * n, counts + item);
GTR_END
