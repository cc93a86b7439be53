// The edges among each query's candidates, and the candidates that edges lead to.
#pragma once

#include "gtr/bits.hpp"
#include "gtr/entry.hpp"
#include "gtr/places.hpp"
#include "gtr/sparse_rows.hpp"

GTR_BEGIN

// How many neighbours of each candidate are candidates of the query as well; flags queries whose candidates don't rise.
template <class Team>
GTR_FN void count_edges(Team& team, i64 first, i64 last, const i32* candidates, const i64* graph_offsets,
                        const i32* graph_columns, i64 n_tables, i64 n_words, i64* lengths, u8* wrong) {
    const i64 n = last - first;
    candidates += first;
    lengths += first;
    const bool right = rising(team, candidates, n, n_tables);
    team.one([&] { *wrong = !right; });
    if (!right) {
        team.each(n, [&](i64 i) { lengths[i] = 0; });
        return;
    }
    const Places places = make_places(team, candidates, n, n_words);
    team.each(n, [&](i64 i) {
        i64 found = 0;
        const i64 start = graph_offsets[candidates[i]], end = graph_offsets[candidates[i] + 1];
        if (places.words) {
            for (i64 e = start; e < end; ++e) found += static_cast<i64>(places.maps(graph_columns[e]));
        } else {
            for (i64 e = start; e < end; ++e) found += places.find(graph_columns[e]) >= 0;
        }
        lengths[i] = found;
    });
}

// Writes those neighbours, as numbers of the batch's candidates, their weights and the sums of them.
template <class Team>
GTR_FN void fill_edges(Team& team, i64 first, i64 last, const i32* candidates, const i64* graph_offsets,
                       const i32* graph_columns, const f32* graph_weights, i64 n_words, const i64* row_offsets,
                       i32* columns, f32* weights, f32* degrees) {
    const i64 n = last - first;
    candidates += first;
    row_offsets += first;
    degrees += first;
    const Places places = make_places(team, candidates, n, n_words);
    team.each(n, [&](i64 i) {
        f64 degree = 0;
        const i64 end = row_offsets[i + 1];
        i64 to = row_offsets[i];
        for (i64 e = graph_offsets[candidates[i]]; places.words && to < end; ++e) {
            // Written in any case and kept where it is found: a branch on that would be guessed wrong too often. So the
            // degree goes by bits: of a choice between the weight and 0 compilers make a branch again.
            const i32 table = graph_columns[e];
            const u64 kept = places.maps(table);
            const f32 weight = graph_weights[e];
            columns[to] = static_cast<i32>(first) + places.place(table);
            weights[to] = weight;
            degree += f32_of(bits_of(weight) & -static_cast<u32>(kept));
            to += static_cast<i64>(kept);
        }
        for (i64 e = graph_offsets[candidates[i]]; to < end; ++e) {
            const i64 place = places.find(graph_columns[e]);
            const f32 weight = graph_weights[e];
            columns[to] = static_cast<i32>(first + place);
            weights[to] = weight;
            degree += place >= 0 ? weight : 0.0f;
            to += place >= 0;
        }
        degrees[i] = static_cast<f32>(degree);
    });
}

// One bit for each table that is a candidate or a neighbour of one.
template <class Team>
GTR_FN u64* reached_words(Team& team, const i32* candidates, i64 n, const i64* graph_offsets, const i32* graph_columns,
                          i64 n_words) {
    u64* words = no_bits(team, n_words);
    team.sync();
    team.each(n, [&](i64 i) {
        const i32 table = candidates[i];
        add_bit(team, words, table);
        for (i64 e = graph_offsets[table]; e < graph_offsets[table + 1]; ++e) add_bit(team, words, graph_columns[e]);
    });
    team.sync();
    return words;
}

GTR_FINISH

GTR_ENTRY(induced_count, Block, const i64* offsets, const i32* candidates, const i64* graph_offsets,
          const i32* graph_columns, i64 n_tables, i64 n_words, i64* lengths, u8* wrong)
    count_edges(team, offsets[item], offsets[item + 1], candidates, graph_offsets, graph_columns, n_tables, n_words,
                lengths, wrong + item);
GTR_END

GTR_ENTRY(induced_fill, Block, const i64* offsets, const i32* candidates, const i64* graph_offsets,
          const i32* graph_columns, const f32* graph_weights, i64 n_words, const i64* row_offsets, i32* columns,
          f32* weights, f32* degrees)
    fill_edges(team, offsets[item], offsets[item + 1], candidates, graph_offsets, graph_columns, graph_weights, n_words,
               row_offsets, columns, weights, degrees);
GTR_END

GTR_ENTRY(widen_count, Block, const i64* offsets, const i32* candidates, const i64* graph_offsets,
          const i32* graph_columns, i64 n_tables, i64 n_words, i64* lengths, u8* wrong)
    const i64 n = offsets[item + 1] - offsets[item];
    const bool right = rising(team, candidates + offsets[item], n, n_tables);
    i64 reached = 0;
    if (right) {
        const u64* words =
            reached_words(team, candidates + offsets[item], n, graph_offsets, graph_columns, n_words);
        reached = count_bits(team, words, n_words);
    }
    team.one([&] {
        lengths[item] = reached;
        wrong[item] = !right;
    });
GTR_END

GTR_ENTRY(widen_fill, Block, const i64* offsets, const i32* candidates, const i64* graph_offsets,
          const i32* graph_columns, i64 n_words, const i64* row_offsets, i32* tables)
    const u64* words = reached_words(team, candidates + offsets[item], offsets[item + 1] - offsets[item],
                                     graph_offsets, graph_columns, n_words);
    write_bits(team, words, n_words, tables + row_offsets[item]);
GTR_END

// Of each row of a tile of similarities: how many are at least the floor and above 0.
GTR_ENTRY(similarity_count, Warp, const f32* similarities, i64 n_columns, f64 floor, i64* lengths)
    const f32* row = similarities + item * n_columns;
    const f32 least = static_cast<f32>(floor);
    const i64 kept = team.sum(n_columns, [&](i64 j) { return i32(row[j] >= least && row[j] > 0); });
    team.one([&] { lengths[item] = kept; });
GTR_END

// Writes those, with columns that count from `start`, and their sums.
GTR_ENTRY(similarity_fill, Warp, const f32* similarities, i64 n_columns, f64 floor, i64 start, const i64* row_offsets,
          i32* columns, f32* weights, f32* degrees)
    const f32* row = similarities + item * n_columns;
    const f32 least = static_cast<f32>(floor);
    auto kept = [&](i64 j) { return row[j] >= least && row[j] > 0; };
    const f64 degree = team.sum(n_columns, [&](i64 j) { return kept(j) ? static_cast<f64>(row[j]) : 0.0; });
    team.one([&] { degrees[item] = static_cast<f32>(degree); });
    team.scan(
        n_columns, [&](i64 j) { return kept(j); },
        [&](i64 j, i64 before) {
            if (!kept(j)) return;
            columns[row_offsets[item] + before] = static_cast<i32>(start + j);
            weights[row_offsets[item] + before] = row[j];
        });
GTR_END
