// The union of several runs of ids for each row.
#pragma once

#include "gtr/bits.hpp"
#include "gtr/entry.hpp"

GTR_BEGIN

// One bit for each id in the runs from `first` up to `last`; a run is ids[starts[run]] up to ids[ends[run]].
template <class Team>
GTR_FN u64* united_words(Team& team, i64 first, i64 last, const i64* starts, const i64* ends, const i32* ids,
                         i64 n_words) {
    u64* words = no_bits(team, n_words);
    team.sync();
    for (i64 run = first; run < last; ++run) {
        const i32* own = ids + starts[run];
        team.each(ends[run] - starts[run], [&](i64 i) { add_bit(team, words, own[i]); });
    }
    team.sync();
    return words;
}

GTR_FINISH

// How many different ids each row's runs have.
GTR_ENTRY(union_count, Block, const i64* offsets, const i64* starts, const i64* ends, const i32* ids, i64 n_words,
          i64* lengths)
    const u64* words = united_words(team, offsets[item], offsets[item + 1], starts, ends, ids, n_words);
    const i64 length = count_bits(team, words, n_words);
    team.one([&] { lengths[item] = length; });
GTR_END

// Writes those ids, rising.
GTR_ENTRY(union_fill, Block, const i64* offsets, const i64* starts, const i64* ends, const i32* ids, i64 n_words,
          const i64* united_offsets, i32* united)
    const u64* words = united_words(team, offsets[item], offsets[item + 1], starts, ends, ids, n_words);
    write_bits(team, words, n_words, united + united_offsets[item]);
GTR_END
