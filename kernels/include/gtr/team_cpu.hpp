// The CPU's team: one thread.
#pragma once

#include "gtr/team.hpp"

namespace gtr {

// Says that a body asks for more scratch than its caller has sized; thrown, so that it can never corrupt memory.
[[noreturn]] void scratch_overflow(i64 bytes);

}  // namespace gtr

GTR_BEGIN

class ThreadTeam {
  public:
    explicit ThreadTeam(Scratch scratch) : scratch_(scratch) {}

    GTR_FN void reset() { scratch_.reset(); }

    template <class F>
    GTR_FN void each(i64 n, F f) {
#pragma GCC ivdep
        for (i64 i = 0; i < n; ++i) f(i);
    }

    template <class F>
    GTR_FN void one(F f) {
        f();
    }

    GTR_FN void sync() {}

    template <class F>
    GTR_FN auto sum(i64 n, F f) -> decltype(f(i64())) {
        decltype(f(i64())) total = 0;
#pragma omp simd reduction(+ : total)
        for (i64 i = 0; i < n; ++i) total += f(i);
        return total;
    }

    template <class T, class F>
    GTR_FN T max(i64 n, T lowest, F f) {
        T greatest = lowest;
#pragma omp simd reduction(max : greatest)
        for (i64 i = 0; i < n; ++i) {
            T value = f(i);
            greatest = greatest < value ? value : greatest;
        }
        return greatest;
    }

    template <class F, class G>
    GTR_FN i64 scan(i64 n, F f, G put) {
        i64 total = 0;
        for (i64 i = 0; i < n; ++i) {
            i64 value = f(i);
            put(i, total);
            total += value;
        }
        return total;
    }

    GTR_FN i64 size() { return 1; }

    // Volatile, since a loop in vectors would lose bits where two of a vector's items have the same word.
    GTR_FN void set_bits(u64* word, u64 bits) {
        volatile u64* shared = word;
        *shared = *shared | bits;
    }

    template <class T, i64 C>
    struct Lanes {
        T of[C] = {};
        GTR_FN T& operator[](i64 lane) { return of[lane]; }
    };

    template <i64 C, class F>
    GTR_FN void tiles(i64 n, F f) {
        for (i64 tile = 0; tile < n; ++tile) f(tile);
    }

    template <i64 C, class F>
    GTR_FN void lanes(F f) {
        // In eights: numbers that lie apart are loaded one by one, and to put together 16 takes more than twice eight.
#pragma omp simd simdlen(8)
        for (i64 lane = 0; lane < C; ++lane) f(lane);
    }

    template <class T, i64 C>
    GTR_FN f64 sum_lanes(Lanes<T, C>& lanes) {
        f64 total = 0;
        for (i64 lane = 0; lane < C; ++lane) total += lanes[lane];
        return total;
    }

    template <class T>
    GTR_FN T* scratch(i64 n) {
        u8* memory;
        if (!scratch_.take(n * static_cast<i64>(sizeof(T)), memory)) scratch_overflow(n * static_cast<i64>(sizeof(T)));
        return reinterpret_cast<T*>(memory);
    }

  private:
    Scratch scratch_;
};

GTR_FINISH
