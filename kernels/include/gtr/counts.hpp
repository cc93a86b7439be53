// Counts over the tokens of each text.
#pragma once

#include "gtr/entry.hpp"
#include "gtr/sort.hpp"

GTR_BEGIN

// A row's distinct tokens, rising, with how often each stands there and how many of those are marked.
//
// They are written from the row's own start on, since there are at most as many as tokens; `n_distinct` tells how many.
template <class Team>
GTR_FN void count_row(Team& team, i64 first, i64 last, const i32* tokens, const u8* marked, i32* distinct,
                      i32* counts, i32* marks, i64* n_distinct) {
    const i64 n = last - first, length = sorted_length(n);
    u32* keys = team.template scratch<u32>(length);
    i32* starts = team.template scratch<i32>(n + 1);
    team.each(length, [&](i64 i) {
        keys[i] = i < n ? static_cast<u32>(tokens[first + i]) << 1 | (marked ? marked[first + i] != 0 : 0) : ~u32(0);
    });
    team.sync();
    sort_keys(team, length, keys);
    auto begins = [&](i64 i) { return i == 0 || keys[i] >> 1 != keys[i - 1] >> 1; };
    const i64 found = team.scan(
        n, [&](i64 i) { return static_cast<i64>(begins(i)); },
        [&](i64 i, i64 place) {
            if (begins(i)) starts[place] = static_cast<i32>(i);
        });
    team.one([&] {
        starts[found] = static_cast<i32>(n);
        n_distinct[0] = found;
    });
    team.sync();
    team.each(found, [&](i64 place) {
        const i64 start = starts[place], stop = starts[place + 1];
        i64 plain = start;
        while (plain < stop && (keys[plain] & 1) == 0) ++plain;
        distinct[first + place] = static_cast<i32>(keys[start] >> 1);
        counts[first + place] = static_cast<i32>(stop - start);
        marks[first + place] = static_cast<i32>(stop - plain);
    });
}

// Tokens, the mean length of those that aren't punctuation, tokens with each flag, tokens of each part of speech.
template <class Team>
GTR_FN void count_text(Team& team, i64 first, i64 last, const i32* parts, const i32* letters, const u8* flags,
                       i64 n_flags, i64 n_parts, f32* counts) {
    const i64 n = last - first;
    const i64 words = team.sum(n, [&](i64 i) { return static_cast<i64>(flags[(first + i) * n_flags] == 0); });
    const i64 spelled = team.sum(
        n, [&](i64 i) { return flags[(first + i) * n_flags] ? i64(0) : static_cast<i64>(letters[first + i]); });
    team.one([&] {
        counts[0] = static_cast<f32>(n);
        counts[1] = static_cast<f32>(static_cast<f64>(spelled) / static_cast<f64>(max(words, i64(1))));
    });
    for (i64 flag = 0; flag < n_flags; ++flag) {
        const i64 found = team.sum(n, [&](i64 i) { return static_cast<i64>(flags[(first + i) * n_flags + flag] != 0); });
        team.one([&] { counts[2 + flag] = static_cast<f32>(found); });
    }
    for (i64 part = 0; part < n_parts; ++part) {
        const i64 found = team.sum(n, [&](i64 i) { return static_cast<i64>(parts[first + i] == part); });
        team.one([&] { counts[2 + n_flags + part] = static_cast<f32>(found); });
    }
}

GTR_FINISH

GTR_ENTRY(count_tokens, Block, const i64* offsets, const i32* tokens, const u8* marked, i32* distinct, i32* counts,
          i32* marks, i64* n_distinct)
    count_row(team, offsets[item], offsets[item + 1], tokens, marked, distinct, counts, marks, n_distinct + item);
GTR_END

GTR_ENTRY(gather_counts, Warp, const i64* sources, const i64* offsets, const i32* distinct, const i32* counts,
          const i32* marks, i32* kept_distinct, i32* kept_counts, i32* kept_marks)
    const i64 source = sources[item], target = offsets[item];
    team.each(offsets[item + 1] - target, [&](i64 i) {
        kept_distinct[target + i] = distinct[source + i];
        kept_counts[target + i] = counts[source + i];
        kept_marks[target + i] = marks[source + i];
    });
GTR_END

GTR_ENTRY(structural_counts, Warp, const i64* offsets, const i32* parts, const i32* letters, const u8* flags,
          i64 n_flags, i64 n_parts, f32* counts)
    count_text(team, offsets[item], offsets[item + 1], parts, letters, flags, n_flags, n_parts,
               counts + item * (2 + n_flags + n_parts));
GTR_END
