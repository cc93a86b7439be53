// The m greatest of each row of a tile of products, put among those of earlier tiles.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// Columns are looked at in groups of LANES times DEPTH; a lane is every LANES-th column of its group.
constexpr i64 LANES = 64;
constexpr i64 DEPTH = 16;
constexpr i64 GROUP = LANES * DEPTH;

// Puts a row's products (columns first, first + 1, ...; the row is overwritten) among the m best of columns before
// them: ids and scores, best first, ties to the smaller id, padded by -1 and -inf.
//
// One pass finds the greatest product of each lane; the best ones are then taken one by one, each from the first group
// that has it.
template <class Team>
GTR_FN void tile_top_m(Team& team, f32* products, i64 width, i64 m, i64 first, i64 excluded, i32* ids, f32* scores) {
    const i64 n_groups = (width + GROUP - 1) / GROUP;
    f32* maxima = team.template scratch<f32>(n_groups * LANES);
    i32* more_ids = team.template scratch<i32>(m);
    f32* more = team.template scratch<f32>(m);
    team.one([&] {
        if (excluded >= first && excluded < first + width) products[excluded - first] = lowest<f32>();
    });
    team.sync();
    for (i64 group = 0; group < n_groups; ++group) {
        f32* lanes = maxima + group * LANES;
        team.each(LANES, [&](i64 lane) { lanes[lane] = lowest<f32>(); });
        const i64 end = min(width, (group + 1) * GROUP);
        for (i64 start = group * GROUP; start < end; start += LANES) {
            const f32* here = products + start;
            team.each(min(LANES, end - start), [&](i64 lane) {
                lanes[lane] = lanes[lane] < here[lane] ? here[lane] : lanes[lane];
            });
        }
    }
    team.sync();
    i64 taken = 0;
    for (; taken < m; ++taken) {
        const f32 best = team.max(n_groups * LANES, lowest<f32>(), [&](i64 i) { return maxima[i]; });
        // As many of the earlier ones as there are places left come before it.
        if (!(best > scores[m - 1 - taken])) break;
        const i32 none = -static_cast<i32>(n_groups * LANES);
        const i64 lane_found = -team.max(n_groups * LANES, none, [&](i64 i) {
            return maxima[i] == best ? -static_cast<i32>(i) : none;
        });
        const i64 start = lane_found / LANES * GROUP;
        const i64 n = min(GROUP, width - start);
        const i64 column = start - team.max(n, -static_cast<i32>(n), [&](i64 i) {
            return products[start + i] == best ? -static_cast<i32>(i) : -static_cast<i32>(n);
        });
        const i64 lane = (column - start) % LANES;
        team.one([&] {
            products[column] = lowest<f32>();
            more_ids[taken] = static_cast<i32>(first + column);
            more[taken] = best;
        });
        team.sync();
        const f32 next = team.max((n - lane + LANES - 1) / LANES, lowest<f32>(), [&](i64 i) {
            return products[start + lane + i * LANES];
        });
        team.one([&] { maxima[start / DEPTH + lane] = next; });
        team.sync();
    }
    if (taken == 0) return;
    team.sync();
    // From the last place on, so that none is overwritten before it has moved.
    team.one([&] {
        i64 earlier = m - taken, later = taken;
        for (i64 place = m - 1; later > 0; --place) {
            const bool moves = earlier > 0 && scores[earlier - 1] < more[later - 1];
            ids[place] = moves ? ids[earlier - 1] : more_ids[later - 1];
            scores[place] = moves ? scores[earlier - 1] : more[later - 1];
            if (moves) {
                --earlier;
            } else {
                --later;
            }
        }
    });
}

// The m best of two lists, by their ranks: an item's rank is the number of those before it.
template <class Team>
GTR_FN void merge_top_m(Team& team, i64 m, i64 n_more, const i32* ids, const f32* scores, const i32* more_ids,
                        const f32* more, i32* merged, f32* best) {
    auto score_of = [&](i64 i) { return i < m ? scores[i] : more[i - m]; };
    auto id_of = [&](i64 i) { return i < m ? ids[i] : more_ids[i - m]; };
    team.each(m + n_more, [&](i64 i) {
        const f32 score = score_of(i);
        const i32 id = id_of(i);
        i64 rank = 0;
        for (i64 j = 0; j < m + n_more; ++j) {
            const f32 other = score_of(j);
            const i32 other_id = id_of(j);
            rank += other > score || (other == score && (other_id < id || (other_id == id && j < i)));
        }
        if (rank < m) {
            merged[rank] = score == lowest<f32>() ? -1 : id;
            best[rank] = score;
        }
    });
}

GTR_FINISH

GTR_ENTRY(tile_top_m_f32, Warp, f32* products, i64 width, i64 m, i64 first, const i64* exclude, i32* ids, f32* scores)
    tile_top_m(team, products + item * width, width, m, first, exclude ? exclude[item] : -1, ids + item * m,
               scores + item * m);
GTR_END

GTR_ENTRY(merge_top_m_f32, Warp, i64 m, i64 n_more, const i32* ids, const f32* scores, const i32* more_ids,
          const f32* more, i32* merged, f32* best)
    merge_top_m(team, m, n_more, ids + item * m, scores + item * m, more_ids + item * n_more, more + item * n_more,
                merged + item * m, best + item * m);
GTR_END
