// Scores of queries over postings: the lists of tables that hold each term.
#pragma once

#include "gtr/entry.hpp"
#include "gtr/sparse_rows.hpp"

GTR_BEGIN

// Lucene's weight of a term that so many of n documents hold; never negative.
GTR_FN f64 bm25_idf(i64 document_frequency, i64 n_documents) {
    const f64 df = static_cast<f64>(document_frequency);
    return log1p(max(n_documents - df + 0.5, 0.0) / (df + 0.5));
}

// What a term's occurrences in each table count, tf / (tf + k1 (1 - b + b length / average)), for one term's postings.
template <class Team>
GTR_FN void weigh_postings(Team& team, i64 first, i64 last, const i32* tables, const i32* frequencies,
                         const f32* discounts, f32* weights) {
    team.each(last - first, [&](i64 i) {
        const f32 tf = static_cast<f32>(frequencies[first + i]);
        weights[first + i] = tf / (tf + discounts[tables[first + i]]);
    });
}

// Adds up the weights of a query's terms in its own row of scores, touching only their postings.
//
// A table stands once in a term's postings, so the additions for one term don't meet each other. Terms are added in
// the order of the query, whatever the team.
template <class Team>
GTR_FN void score_query(Team& team, i64 first, i64 last, const i32* terms, const i32* occurrences, i64 n_terms,
                        const i64* offsets, const i32* tables, const f32* weights, const i64* document_frequency,
                        i64 n_documents, i64 n_tables, f32* scores) {
    team.each(n_tables, [&](i64 table) { scores[table] = 0; });
    for (i64 t = first; t < last; ++t) {
        const i32 term = terms[t];
        // The vocabulary may have grown since these postings were written.
        if (term >= n_terms) continue;
        const f32 weight = static_cast<f32>(occurrences[t] * bm25_idf(document_frequency[term], n_documents));
        const i32* held = tables + offsets[term];
        const f32* counted = weights + offsets[term];
        team.sync();
        team.each(offsets[term + 1] - offsets[term], [&](i64 i) { scores[held[i]] += weight * counted[i]; });
    }
}

// Numbers that are searched for side by side.
constexpr i64 searched_lanes = 16;

// What each of a query's terms weighs in each of its candidates, a row of `weighed` for each candidate.
//
// Candidates and postings both rise: of the shorter list all numbers are searched for in the longer one. Only rows of
// the tables from `first_table` on that these postings are of are written.
template <class Team>
GTR_FN void weigh_terms(Team& team, i64 n, const i32* candidates, i64 n_own, const i32* terms, i64 n_terms,
                        const i64* offsets, const i32* tables, const f32* weights, i64 first_table, i64 n_tables,
                        f32* weighed) {
    constexpr i64 C = searched_lanes;
    const i64 start = first_not_below(candidates, 0, n, first_table);
    const i64 inside = first_not_below(candidates, start, n, first_table + n_tables) - start;
    candidates += start;
    weighed += start * n_own;
    team.each(inside * n_own, [&](i64 i) { weighed[i] = 0; });
    team.sync();
    for (i64 t = 0; t < n_own; ++t) {
        const i32 term = terms[t];
        // The vocabulary may have grown since these postings were written.
        if (term >= n_terms) continue;
        const i32* held = tables + offsets[term];
        const f32* counted = weights + offsets[term];
        const i64 many = offsets[term + 1] - offsets[term];
        const bool by_candidate = inside <= many;
        const i64 n_keys = by_candidate ? inside : many, n_list = by_candidate ? many : inside;
        const i32* keys = by_candidate ? candidates : held;
        const i32* list = by_candidate ? held : candidates;
        const i32 shift = static_cast<i32>(by_candidate ? -first_table : first_table);
        team.template tiles<C>((n_keys + C - 1) / C, [&](i64 tile) {
            typename Team::template Lanes<i32, C> key, place;
            team.template lanes<C>([&](i64 lane) {
                key[lane] = keys[min(static_cast<i32>(tile * C + lane), static_cast<i32>(n_keys) - 1)] + shift;
            });
            // All lanes go as many steps. By bits: of a choice compilers make a branch, which is guessed wrong.
            for (i32 left = static_cast<i32>(n_list); left > 1;) {
                const i32 half = left / 2;
                team.template lanes<C>([&](i64 lane) {
                    place[lane] += half & -i32(list[place[lane] + half - 1] < key[lane]);
                });
                left -= half;
            }
            team.template lanes<C>([&](i64 lane) {
                const i64 at = tile * C + lane, found = place[lane];
                if (at >= n_keys || list[found] != key[lane]) return;
                weighed[(by_candidate ? at : found) * n_own + t] = counted[by_candidate ? found : at];
            });
        });
    }
}

GTR_FINISH

GTR_ENTRY(bm25_weights, Warp, const i64* offsets, const i32* tables, const i32* frequencies, const f32* discounts,
          f32* weights)
    weigh_postings(team, offsets[item], offsets[item + 1], tables, frequencies, discounts, weights);
GTR_END

GTR_ENTRY(posting_scores, Block, const i64* query_offsets, const i32* terms, const i32* occurrences, i64 n_terms,
          const i64* offsets, const i32* tables, const f32* weights, const i64* document_frequency, i64 n_documents,
          i64 n_tables, i64 first_column, i64 n_columns, f32* scores)
    score_query(team, query_offsets[item], query_offsets[item + 1], terms, occurrences, n_terms, offsets, tables,
                weights, document_frequency, n_documents, n_tables, scores + item * n_columns + first_column);
GTR_END

GTR_ENTRY(term_weights, Block, const i64* query_offsets, const i32* terms, const i64* candidate_offsets,
          const i32* candidates, const i64* starts, i64 n_terms, const i64* offsets, const i32* tables,
          const f32* weights, i64 first_table, i64 n_tables, f32* weighed, u8* wrong)
    const i64 n = candidate_offsets[item + 1] - candidate_offsets[item];
    const bool right = rising(team, candidates + candidate_offsets[item], n, i64(1) << 31);
    team.one([&] { wrong[item] = !right; });
    if (right) {
        weigh_terms(team, n, candidates + candidate_offsets[item], query_offsets[item + 1] - query_offsets[item],
                    terms + query_offsets[item], n_terms, offsets, tables, weights, first_table, n_tables,
                    weighed + starts[item]);
    }
GTR_END
