// Where a table stands among the candidates of one query.
#pragma once

#include "gtr/bits.hpp"
#include "gtr/entry.hpp"

GTR_BEGIN

// Where a table stands among one query's candidates: a bit for each table and, for each word of bits, how many candidates
// come before it. With so many tables that this would take too long to clear (n_words is 0), a binary search.
struct Places {
    const i32* candidates;
    i64 n;
    u64* words;
    i32* starts;

    // Whether it is a candidate, and the place that it has then; in a map of bits.
    GTR_FN u64 maps(i32 table) const { return words[u32(table) / 64] >> (u32(table) % 64) & 1; }
    GTR_FN i32 place(i32 table) const {
        const u64 before = (u64(1) << (u32(table) % 64)) - 1;
        return starts[u32(table) / 64] + static_cast<i32>(popcount(words[u32(table) / 64] & before));
    }

    // -1 where it is no candidate.
    GTR_FN i64 find(i32 table) const {
        if (words) return maps(table) ? place(table) : -1;
        i64 low = 0, high = n;
        while (low < high) {
            i64 middle = (low + high) / 2;
            if (candidates[middle] < table) low = middle + 1;
            else high = middle;
        }
        return low < n && candidates[low] == table ? low : -1;
    }
};

template <class Team>
GTR_FN Places make_places(Team& team, const i32* candidates, i64 n, i64 n_words) {
    if (!n_words) return {candidates, n, nullptr, nullptr};
    u64* words = no_bits(team, n_words);
    i32* starts = team.template scratch<i32>(n_words);
    team.each(n_words, [&](i64 word) { starts[word] = 0; });
    team.sync();
    // Whoever sees the first candidate of a word sets the whole word.
    team.each(n, [&](i64 i) {
        const i32 number = candidates[i] / 64;
        if (i > 0 && candidates[i - 1] / 64 == number) return;
        u64 word = 0;
        for (i64 j = i; j < n && candidates[j] / 64 == number; ++j) word |= u64(1) << (candidates[j] % 64);
        words[number] = word;
        starts[number] = static_cast<i32>(i);
    });
    team.sync();
    return {candidates, n, words, starts};
}

GTR_FINISH
