// Scores of queries over postings: the lists of tables that hold each term.
#pragma once

#include "gtr/entry.hpp"

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
