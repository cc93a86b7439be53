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

// The key of a score that is less by a margin; keys below that of -inf are none of a score.
GTR_FN u32 seeds_below(u32 key, f32 margin) {
    return margin > 0 && key > seeds_none ? ordered_bits(from_ordered_bits(key) - margin) : key;
}

// Semantic scores that are exact as they are given.
struct ExactScores {
    static constexpr bool refined = false;
    GTR_FN f32 slack(f32) const { return 0; }
    GTR_FN f32 exact(i64) const { return 0; }
};

// Semantic scores from products of bf16; exact ones are products of the query with features.
template <class T>
struct HalvedScores {
    static constexpr bool refined = true;
    const f32* query;
    const T* features;
    i64 dim;
    f32 error;

    // How far a score is from the exact one at most, of scores up to that far from 0: stored as bf16, each may have lost
    // half an ulp, 1 / 256 of it.
    GTR_FN f32 slack(f32 farthest) const { return (error + farthest * (1.0f / 256)) * 1.01f; }

    GTR_FN f32 exact(i64 table) const {
        const T* row = features + table * dim;
        f32 product = 0;
#pragma omp simd reduction(+ : product)
        for (i64 i = 0; i < dim; ++i) product += query[i] * to_f32(row[i]);
        return product;
    }
};

// The greatest score of a row, of the tables that are alive; `least` at least.
template <class Team, class S>
GTR_FN f32 seeds_greatest(Team& team, const S* row, const u8* alive, i64 n, f32 least) {
    if (alive) return team.max(n, least, [&](i64 i) { return alive[i] ? to_f32(row[i]) : least; });
    return team.max(n, least, [&](i64 i) { return to_f32(row[i]); });
}

// The greatest exact score of the tables that are alive, not below 0. Only those near the greatest score are computed.
template <class Team, class S, class Scores>
GTR_FN f32 seeds_exact_greatest(Team& team, const S* row, const u8* alive, i64 n, f32 slack, const Scores& scores) {
    const f32 least = seeds_greatest(team, row, alive, n, lowest<f32>()) - 2 * slack;
    return team.max((n + seeds_block - 1) / seeds_block, 0.0f, [&](i64 block) {
        const i64 first = block * seeds_block, last = min(first + seeds_block, n);
        i32 near = 0;
#pragma omp simd reduction(| : near)
        for (i64 i = first; i < last; ++i) near |= to_f32(row[i]) >= least;
        f32 found = 0;
        for (i64 i = first; near && i < last; ++i) {
            if (to_f32(row[i]) >= least && (!alive || alive[i])) found = max(found, scores.exact(i));
        }
        return found;
    });
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
// blocks that reach it are looked into. Where semantic scores are inexact, the tables that may be among the best in
// spite of it are found first, and get exact scores.
template <class Team, class S, class Scores>
GTR_FN void best_mixed(Team& team, const S* semantic, const f32* lexical, const u8* alive, f64 mix, i64 n_tables, i64 n,
                       const Scores& inexact, i32* ids, f32* scores, i64* count) {
    constexpr f32 tiny = 1.17549435e-38f;
    f32* mixed = team.template scratch<f32>(n_tables);
    f32 share = 1, rest = 0, margin = 0;
    if (lexical) {
        rest = static_cast<f32>(semantic ? 1 - mix : 1.0) / max(seeds_greatest(team, lexical, alive, n_tables, 0.0f), tiny);
    }
    if (semantic) {
        f32 slack = 0;
        if (Scores::refined) {
            slack = inexact.slack(team.max(n_tables, 0.0f, [&](i64 i) { return abs(to_f32(semantic[i])); }));
        }
        if (lexical) {
            const f32 greatest = Scores::refined
                                     ? seeds_exact_greatest(team, semantic, alive, n_tables, slack, inexact)
                                     : seeds_greatest(team, semantic, alive, n_tables, 0.0f);
            share = static_cast<f32>(mix) / max(greatest, tiny);
        }
        // Both of two scores may be off by the slack; and rounding.
        margin = Scores::refined ? 2 * share * slack * 1.001f + 1e-6f : 0.0f;
    }
    // Negative zeros become positive ones, so that they tie.
    auto mix_two = [=](f32 cosine, i64 i) {
        return lexical ? share * max(0.0f, cosine) + rest * max(0.0f, lexical[i]) : cosine + 0.0f;
    };
    if (!lexical) {
        seeds_fill(team, alive, n_tables, mixed, [&](i64 i) { return to_f32(semantic[i]) + 0.0f; });
    } else if (!semantic) {
        seeds_fill(team, alive, n_tables, mixed, [&](i64 i) { return rest * max(0.0f, lexical[i]); });
    } else {
        seeds_fill(team, alive, n_tables, mixed,
                   [&](i64 i) { return share * max(0.0f, to_f32(semantic[i])) + rest * max(0.0f, lexical[i]); });
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
    u32 least = 0;
    if (n < n_blocks) least = seeds_below(seeds_threshold(team, maxima, n_blocks, n), margin);
    least = max(seeds_none + 1, least);

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

    if (Scores::refined) {
        const u32 enough = n < n_found ? seeds_below(seeds_threshold(team, keys, n_found, n), margin) : 0u;
        team.each(n_found, [&](i64 i) {
            if (keys[i] < enough) {
                keys[i] = 0;
            } else {
                mixed[found[i]] = mix_two(inexact.exact(found[i]), found[i]);
                keys[i] = ordered_bits(mixed[found[i]]);
            }
        });
    }

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
    best_mixed(team, semantic ? semantic + item * n_tables : semantic, lexical ? lexical + item * n_tables : lexical,
               alive, mix, n_tables, n, ExactScores(), ids + item * n, scores + item * n, counts + item);
GTR_END

GTR_ENTRY(best_refined_f32, Block, const bf16* semantic, const f32* errors, const f32* queries, const f32* features,
          i64 dim, const f32* lexical, const u8* alive, f64 mix, i64 n_tables, i64 n, i32* ids, f32* scores,
          i64* counts)
    const HalvedScores<f32> inexact{queries + item * dim, features, dim, errors[item]};
    best_mixed(team, semantic + item * n_tables, lexical ? lexical + item * n_tables : lexical, alive, mix, n_tables, n,
               inexact, ids + item * n, scores + item * n, counts + item);
GTR_END

GTR_ENTRY(best_refined_f16, Block, const bf16* semantic, const f32* errors, const f32* queries, const f16* features,
          i64 dim, const f32* lexical, const u8* alive, f64 mix, i64 n_tables, i64 n, i32* ids, f32* scores,
          i64* counts)
    const HalvedScores<f16> inexact{queries + item * dim, features, dim, errors[item]};
    best_mixed(team, semantic + item * n_tables, lexical ? lexical + item * n_tables : lexical, alive, mix, n_tables, n,
               inexact, ids + item * n, scores + item * n, counts + item);
GTR_END
