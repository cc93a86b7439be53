// Sorting by a whole team: the bitonic network, whose comparisons of one step don't depend on each other.
#pragma once

#include "gtr/team.hpp"

GTR_BEGIN

// The length to which a list of n is padded, with keys that are last, before it is sorted: a power of two.
GTR_FN i64 sorted_length(i64 n) {
    i64 length = 1;
    while (length < n) length *= 2;
    return length;
}

// Calls exchange(low, high) for all pairs of a sorting network of `length`, a power of two; low < high always, and what
// lies at low belongs before what lies at high.
template <class Team, class F>
GTR_FN void sorting_network(Team& team, i64 length, F exchange) {
    for (i64 block = 2; block <= length; block *= 2) {
        // The two sorted halves of a block meet crosswise, so that all comparisons point the same way.
        team.each(length / 2, [&](i64 i) {
            const i64 half = block / 2, start = i / half * block, place = i & (half - 1);
            exchange(start + place, start + block - 1 - place);
        });
        team.sync();
        for (i64 step = block / 4; step > 0; step /= 2) {
            team.each(length / 2, [&](i64 i) {
                const i64 low = ((i & ~(step - 1)) << 1) | (i & (step - 1));
                exchange(low, low + step);
            });
            team.sync();
        }
    }
}

// Sorts keys, rising, and what belongs to them.
template <class Key, class Value, class Team>
GTR_FN void sort_pairs(Team& team, i64 length, Key* keys, Value* values) {
    sorting_network(team, length, [&](i64 low, i64 high) {
        const Key left = keys[low], right = keys[high];
        const Value of_left = values[low], of_right = values[high];
        const bool swap = right < left;
        keys[low] = swap ? right : left;
        keys[high] = swap ? left : right;
        values[low] = swap ? of_right : of_left;
        values[high] = swap ? of_left : of_right;
    });
}

// Sorts keys, rising.
template <class Key, class Team>
GTR_FN void sort_keys(Team& team, i64 length, Key* keys) {
    sorting_network(team, length, [&](i64 low, i64 high) {
        const Key left = keys[low], right = keys[high];
        keys[low] = min(left, right);
        keys[high] = max(left, right);
    });
}

GTR_FINISH
