// Sums, maxima, shares and best items of the rows of ragged batches.
#pragma once

#include "gtr/entry.hpp"
#include "gtr/sort.hpp"

GTR_BEGIN

// The sum of a row's items, or their mean, in float64; items are `width` numbers each. 0 for an empty row.
template <class T, class Team>
GTR_FN void segment_sum(Team& team, i64 first, i64 last, i64 width, i64 mean, const T* values, T* result) {
    const i64 n = last - first;
    const f64 divisor = mean && n > 1 ? static_cast<f64>(n) : 1.0;
    if (width == 1) {
        f64 total = team.sum(n, [&](i64 i) { return static_cast<f64>(values[first + i]); });
        team.one([&] { result[0] = static_cast<T>(total / divisor); });
        return;
    }
    // A column is always the same thread's, so no barrier is needed.
    f64* totals = team.template scratch<f64>(width);
    team.each(width, [&](i64 c) { totals[c] = 0; });
    for (i64 i = first; i < last; ++i) {
        const T* row = values + i * width;
        team.each(width, [&](i64 c) { totals[c] += static_cast<f64>(row[c]); });
    }
    team.each(width, [&](i64 c) { result[c] = static_cast<T>(totals[c] / divisor); });
}

// The greatest of a row's items, column by column; minus infinity for an empty row.
template <class T, class Team>
GTR_FN void segment_max(Team& team, i64 first, i64 last, i64 width, const T* values, T* result) {
    if (width == 1) {
        T greatest = team.max(last - first, lowest<T>(), [&](i64 i) { return values[first + i]; });
        team.one([&] { result[0] = greatest; });
        return;
    }
    team.each(width, [&](i64 c) { result[c] = lowest<T>(); });
    for (i64 i = first; i < last; ++i) {
        const T* row = values + i * width;
        team.each(width, [&](i64 c) { result[c] = max(result[c], row[c]); });
    }
}

// Divides a row's items by their sum; equal shares where that is not above 0.
template <class T, class Team>
GTR_FN void segment_normalize(Team& team, i64 first, i64 last, const T* values, T* shares) {
    const i64 n = last - first;
    f64 total = team.sum(n, [&](i64 i) { return static_cast<f64>(values[first + i]); });
    team.each(n, [&](i64 i) {
        shares[first + i] = static_cast<T>(total > 0 ? static_cast<f64>(values[first + i]) / total : 1.0 / n);
    });
}

// exp(v / temperature) over the sum of those; equal shares where all items are minus infinity.
template <class T, class Team>
GTR_FN void segment_softmax(Team& team, i64 first, i64 last, f64 temperature, const T* values, T* shares) {
    const i64 n = last - first;
    const T greatest = team.max(n, lowest<T>(), [&](i64 i) { return values[first + i]; });
    if (greatest == lowest<T>()) {
        team.each(n, [&](i64 i) { shares[first + i] = static_cast<T>(1.0 / n); });
        return;
    }
    team.each(n, [&](i64 i) {
        shares[first + i] = static_cast<T>(exp(static_cast<f64>(values[first + i] - greatest) / temperature));
    });
    f64 total = team.sum(n, [&](i64 i) { return static_cast<f64>(shares[first + i]); });
    team.each(n, [&](i64 i) { shares[first + i] = static_cast<T>(static_cast<f64>(shares[first + i]) / total); });
}

// As ordered_bits, but 0 and -0 are equal.
GTR_FN u32 ordered(f32 value) { return ordered_bits(value + 0.0f); }

// The k best of a row's items, best first; ties go to the smaller id. `wanted` is at most n.
//
// The key of the k-th best is found bit by bit, by counting; then the smallest ids among its equals in the same way; then
// those above are collected and sorted. So a row is read some thirty times, in full vectors, and never sorted as a whole.
template <class Team>
GTR_FN void select_row(Team& team, i64 first, i64 last, i64 wanted, i64 padded, const f32* values, const i32* ids,
                       i32* top_ids, f32* top_values, i64* top_positions) {
    const i64 n = last - first;
    const f32* value = values + first;
    const i32* id = ids + first;
    u32 bound = 0;
    i32 last_id = 0x7fffffff;
    if (wanted < n) {
        i64 reached = n;
        for (u32 bit = 0x80000000u; bit != 0 && reached != wanted; bit >>= 1) {
            const u32 tried = bound | bit;
            const i64 found = team.sum(n, [&](i64 i) { return static_cast<i32>(ordered(value[i]) >= tried); });
            if (found >= wanted) {
                bound = tried;
                reached = found;
            }
        }
        if (reached > wanted) {
            // All bits are known, so the surplus equals the bound: the ids decide.
            const i64 above = team.sum(n, [&](i64 i) { return static_cast<i32>(ordered(value[i]) > bound); });
            i32 excluded = 0;
            for (i32 bit = 0x40000000; bit != 0; bit >>= 1) {
                const i32 tried = excluded | bit;
                const i64 found = team.sum(
                    n, [&](i64 i) { return static_cast<i32>((ordered(value[i]) == bound) & (id[i] < tried)); });
                if (above + found < wanted) excluded = tried;
            }
            last_id = excluded;
        }
    }
    const i64 length = sorted_length(wanted);
    u64* keys = team.template scratch<u64>(length);
    i32* places = team.template scratch<i32>(length);
    auto chosen = [&](i64 i) {
        const u32 key = ordered(value[i]);
        return (key > bound) | ((key == bound) & (last_id == 0x7fffffff)) | ((key == bound) & (id[i] <= last_id));
    };
    team.scan(
        n, [&](i64 i) { return static_cast<i64>(chosen(i)); },
        [&](i64 i, i64 place) {
            if (chosen(i)) {
                // Greatest value first, then smallest id: the smaller key is better.
                keys[place] = static_cast<u64>(~ordered(value[i])) << 32 | static_cast<u32>(id[i]);
                places[place] = static_cast<i32>(i);
            }
        });
    team.each(length - wanted, [&](i64 i) {
        keys[wanted + i] = ~u64(0);
        places[wanted + i] = 0;
    });
    team.sync();
    sort_pairs(team, length, keys, places);
    team.each(max(wanted, padded), [&](i64 i) {
        const bool real = i < wanted;
        const i64 place = real ? places[i] : 0;
        top_ids[i] = real ? id[place] : -1;
        if (top_values) top_values[i] = real ? value[place] : lowest<f32>();
        top_positions[i] = real ? first + place : -1;
    });
}

GTR_FINISH

GTR_ENTRY(segment_sum_f32, Warp, const i64* offsets, i64 width, i64 mean, const f32* values, f32* result)
    segment_sum(team, offsets[item], offsets[item + 1], width, mean, values, result + item * width);
GTR_END

GTR_ENTRY(segment_sum_f64, Warp, const i64* offsets, i64 width, i64 mean, const f64* values, f64* result)
    segment_sum(team, offsets[item], offsets[item + 1], width, mean, values, result + item * width);
GTR_END

GTR_ENTRY(segment_max_f32, Warp, const i64* offsets, i64 width, const f32* values, f32* result)
    segment_max(team, offsets[item], offsets[item + 1], width, values, result + item * width);
GTR_END

GTR_ENTRY(segment_max_f64, Warp, const i64* offsets, i64 width, const f64* values, f64* result)
    segment_max(team, offsets[item], offsets[item + 1], width, values, result + item * width);
GTR_END

GTR_ENTRY(segment_normalize_f32, Block, const i64* offsets, const f32* values, f32* shares)
    segment_normalize(team, offsets[item], offsets[item + 1], values, shares);
GTR_END

GTR_ENTRY(segment_normalize_f64, Block, const i64* offsets, const f64* values, f64* shares)
    segment_normalize(team, offsets[item], offsets[item + 1], values, shares);
GTR_END

GTR_ENTRY(segment_softmax_f32, Block, const i64* offsets, f64 temperature, const f32* values, f32* shares)
    segment_softmax(team, offsets[item], offsets[item + 1], temperature, values, shares);
GTR_END

GTR_ENTRY(segment_softmax_f64, Block, const i64* offsets, f64 temperature, const f64* values, f64* shares)
    segment_softmax(team, offsets[item], offsets[item + 1], temperature, values, shares);
GTR_END

GTR_ENTRY(segment_top_k, Block, const i64* offsets, const f32* values, const i32* ids, i64 k, i64 padded,
          const i64* kept_offsets, i32* top_ids, f32* top_values, i64* top_positions)
    const i64 length = offsets[item + 1] - offsets[item];
    const i64 start = padded ? item * k : kept_offsets[item];
    select_row(team, offsets[item], offsets[item + 1], min(k, length), padded ? k : 0, values, ids, top_ids + start,
               top_values ? top_values + start : top_values, top_positions + start);
GTR_END
