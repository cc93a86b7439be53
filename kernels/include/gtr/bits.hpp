// Sets of numbers as one bit for each number.
#pragma once

#include "gtr/entry.hpp"

GTR_BEGIN

// Scratch for an empty set; a sync() has to follow before numbers are added.
template <class Team>
GTR_FN u64* no_bits(Team& team, i64 n_words) {
    u64* words = team.template scratch<u64>(n_words);
    team.each(n_words, [&](i64 word) { words[word] = 0; });
    return words;
}

template <class Team>
GTR_FN void add_bit(Team& team, u64* words, i32 number) {
    team.set_bits(words + number / 64, u64(1) << (number % 64));
}

// How many numbers a set holds.
template <class Team>
GTR_FN i64 count_bits(Team& team, const u64* words, i64 n_words) {
    return team.sum(n_words, [&](i64 word) { return i64(popcount(words[word])); });
}

// Writes the numbers of a set, rising.
template <class Team>
GTR_FN void write_bits(Team& team, const u64* words, i64 n_words, i32* numbers) {
    team.scan(
        n_words, [&](i64 word) { return popcount(words[word]); },
        [&](i64 word, i64 before) {
            for (u64 bits = words[word]; bits; bits &= bits - 1) {
                numbers[before++] = static_cast<i32>(word * 64 + count_trailing_zeros(bits));
            }
        });
}

GTR_FINISH
