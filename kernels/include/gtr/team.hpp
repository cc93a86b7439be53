// A team: the threads that work together on one item of a batch, such as one query.
//
// A kernel's body is a template over a team and is written once:
//
//     team.each(n, f)          calls f(i) for all i below n, which must not depend on each other
//     team.one(f)              calls f() on one thread
//     team.sync()              makes what the threads wrote visible to all of them
//     team.sum(n, f)           the sum of f(i), on every thread
//     team.max(n, lowest, f)   the greatest of f(i) and lowest, on every thread
//     team.scan(n, f, put)     calls put(i, f(0) + ... + f(i - 1)), in i64; the whole sum on every thread
//     team.scratch<T>(n)       an array that all threads share until the item is done, not initialised
//     team.size()              how many threads there are, for work that is cut into as many runs
//     team.set_bits(word, b)   ors bits into a word that other threads may change at the same time
//
// Rows of unequal length vectorise in tiles of C rows each, C a power of 2 up to 32. A tile's rows are the lanes of a
// CPU's vector; on a GPU each row has a thread of its own:
//
//     team.tiles<C>(n, f)      calls f(tile) for all tiles below n
//     team.lanes<C>(g)         within f: calls g(lane) for each of the tile's rows
//     Team::Lanes<T, C>        numbers of a tile's rows, or sums over tiles; lanes[lane] is of type T
//     team.sum_lanes(lanes)    the sum over all lanes of what tiles have added up, on every thread, in f64
//
// sum, sum_lanes, max and scan are barriers as well, before and after. All threads of a team must make the same calls in the same
// order. Where a loop reads what another thread of the team wrote, a sync() has to lie between the two.
//
// On a CPU a team is one thread whose loops vectorise. On CUDA it is a warp, a block or a grid. In tests it is several
// real threads, so that a missing sync() is a data race that ThreadSanitizer reports.
#pragma once

#include "gtr/portable.hpp"

GTR_BEGIN

// Hands out arrays from the memory of one team.
class Scratch {
  public:
    GTR_FN Scratch(u8* memory, i64 bytes) : memory_(memory), bytes_(bytes), used_(0) {}

    GTR_FN void reset() { used_ = 0; }

    // Puts the array's start into `array`; false where there is too little memory.
    GTR_FN bool take(i64 bytes, u8*& array) {
        bytes = (bytes + 63) / 64 * 64;
        if (used_ + bytes > bytes_) return false;
        array = memory_ + used_;
        used_ += bytes;
        return true;
    }

  private:
    u8* memory_;
    i64 bytes_;
    i64 used_;
};

GTR_FINISH

#ifdef GTR_CUDA
#include "gtr/team_cuda.hpp"
#else
#include "gtr/team_cpu.hpp"
#endif
