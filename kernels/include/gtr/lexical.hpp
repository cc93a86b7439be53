// Scores of queries over postings: the lists of tables that hold each term.
#pragma once

#include "gtr/entry.hpp"
#include "gtr/places.hpp"
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

// Candidates that are searched for side by side.
constexpr i64 searched_lanes = 16;
// So many postings for each candidate are sooner looked through than all candidates are searched for in them.
constexpr i64 searched_postings = 16;

// What each of a query's terms weighs in each of its candidates, a row of `weighed` for each candidate.
//
// Only rows of the tables from `first_table` on that these postings are of are written. With so many tables that a map
// of them would take too long to clear (n_words is 0), candidates are searched for in all postings.
template <class Team>
GTR_FN void weigh_terms(Team& team, i64 n, const i32* candidates, i64 n_own, const i32* terms, i64 n_terms,
                        const i64* offsets, const i32* tables, const f32* weights, i64 first_table, i64 n_tables,
                        i64 n_words, f32* weighed) {
    constexpr i64 C = searched_lanes;
    const i64 start = first_not_below(candidates, 0, n, first_table);
    const i64 inside = first_not_below(candidates, start, n, first_table + n_tables) - start;
    if (inside == 0) return;
    weighed += start * n_own;
    i32* own = team.template scratch<i32>(inside);
    team.each(inside, [&](i64 i) { own[i] = candidates[start + i] - static_cast<i32>(first_table); });
    team.each(inside * n_own, [&](i64 i) { weighed[i] = 0; });
    team.sync();
    const Places places = make_places(team, own, inside, n_words);
    for (i64 t = 0; t < n_own; ++t) {
        const i32 term = terms[t];
        // The vocabulary may have grown since these postings were written.
        if (term >= n_terms) continue;
        const i32* held = tables + offsets[term];
        const f32* counted = weights + offsets[term];
        const i64 many = offsets[term + 1] - offsets[term];
        if (n_words && many <= searched_postings * inside) {
            team.each(many, [&](i64 i) {
                if (places.maps(held[i])) weighed[places.place(held[i]) * n_own + t] = counted[i];
            });
        } else if (many) {
            team.template tiles<C>((inside + C - 1) / C, [&](i64 tile) {
                typename Team::template Lanes<i32, C> table, place;
                team.template lanes<C>([&](i64 lane) { table[lane] = own[min(tile * C + lane, inside - 1)]; });
                // All lanes go as many steps. By bits: of a choice compilers make a branch, which is guessed wrong.
                for (i32 left = static_cast<i32>(many); left > 1;) {
                    const i32 half = left / 2;
                    team.template lanes<C>([&](i64 lane) {
                        place[lane] += half & -static_cast<i32>(held[place[lane] + half - 1] < table[lane]);
                    });
                    left -= half;
                }
                team.template lanes<C>([&](i64 lane) {
                    const i64 row = tile * C + lane, at = place[lane];
                    if (row < inside && held[at] == table[lane]) weighed[row * n_own + t] = counted[at];
                });
            });
        }
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
          const f32* weights, i64 first_table, i64 n_tables, i64 n_words, f32* weighed, u8* wrong)
    const i64 n = candidate_offsets[item + 1] - candidate_offsets[item];
    const bool right = rising(team, candidates + candidate_offsets[item], n, i64(1) << 31);
    team.one([&] { wrong[item] = !right; });
    if (right) {
        weigh_terms(team, n, candidates + candidate_offsets[item], query_offsets[item + 1] - query_offsets[item],
                    terms + query_offsets[item], n_terms, offsets, tables, weights, first_table, n_tables, n_words,
                    weighed + starts[item]);
    }
GTR_END
