// The teams of a GPU: a warp, a block, a grid.
#pragma once

#include "gtr/team.hpp"

GTR_BEGIN

namespace detail {

template <class T>
GTR_FN T warp_sum(T value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

template <class T>
GTR_FN T warp_max(T value) {
    for (int step = 16; step > 0; step /= 2) value = gtr::max(value, __shfl_xor_sync(0xffffffffu, value, step));
    return value;
}

// The sum of the values of the lanes before this one.
GTR_FN i64 warp_scan(i64 value, i64& total) {
    int lane = threadIdx.x % 32;
    i64 running = value;
    for (int step = 1; step < 32; step *= 2) {
        i64 before = __shfl_up_sync(0xffffffffu, running, step);
        if (lane >= step) running += before;
    }
    total = __shfl_sync(0xffffffffu, running, 31);
    return running - value;
}

// What the three teams have in common; Self knows its rank, its size, and how its threads meet.
template <class Self>
class CudaTeam {
  public:
    GTR_FN CudaTeam(Scratch near, Scratch far) : near_(near), far_(far) {}

    GTR_FN void reset() {
        near_.reset();
        far_.reset();
    }

    template <class F>
    GTR_FN void each(i64 n, F f) {
        for (i64 i = self().rank(); i < n; i += self().size()) f(i);
    }

    template <class F>
    GTR_FN void one(F f) {
        if (self().rank() == 0) f();
    }

    template <class F>
    GTR_FN auto sum(i64 n, F f) -> decltype(f(i64())) {
        decltype(f(i64())) own = 0;
        each(n, [&](i64 i) { own += f(i); });
        return self().all_sum(own);
    }

    template <class T, class F>
    GTR_FN T max(i64 n, T lowest, F f) {
        T own = lowest;
        each(n, [&](i64 i) { own = gtr::max(own, f(i)); });
        return self().all_max(own, lowest);
    }

    template <class F, class G>
    GTR_FN i64 scan(i64 n, F f, G put) {
        i64 before = 0;
        self().sync();
        for (i64 first = 0; first < n; first += self().size()) {
            i64 i = first + self().rank();
            i64 total;
            i64 running = self().all_scan(i < n ? static_cast<i64>(f(i)) : 0, total);
            if (i < n) put(i, before + running);
            before += total;
        }
        self().sync();
        return before;
    }

    GTR_FN void set_bits(u64* word, u64 bits) { atomicOr(word, bits); }

    template <class T, i64 C>
    struct Lanes {
        T own = {};
        GTR_FN T& operator[](i64) { return own; }
    };

    template <i64 C, class F>
    GTR_FN void tiles(i64 n, F f) {
        for (i64 tile = self().rank() / C; tile < n; tile += self().size() / C) f(tile);
    }

    template <i64 C, class F>
    GTR_FN void lanes(F f) {
        f(self().rank() % C);
    }

    template <class T, i64 C>
    GTR_FN f64 sum_lanes(Lanes<T, C>& lanes) {
        return self().all_sum(static_cast<f64>(lanes.own));
    }

    // Shared memory as long as there is some, then the workspace of the caller.
    template <class T>
    GTR_FN T* scratch(i64 n) {
        const i64 bytes = n * static_cast<i64>(sizeof(T));
        u8* memory;
        if (!near_.take(bytes, memory) && !far_.take(bytes, memory)) __trap();
        return reinterpret_cast<T*>(memory);
    }

  private:
    GTR_FN Self& self() { return static_cast<Self&>(*this); }

    Scratch near_;
    Scratch far_;
};

}  // namespace detail

class WarpTeam : public detail::CudaTeam<WarpTeam> {
  public:
    using CudaTeam::CudaTeam;

    GTR_FN i64 rank() { return threadIdx.x % 32; }
    GTR_FN i64 size() { return 32; }
    GTR_FN void sync() { __syncwarp(); }

    template <class T>
    GTR_FN T all_sum(T own) {
        sync();
        own = detail::warp_sum(own);
        sync();
        return own;
    }

    template <class T>
    GTR_FN T all_max(T own, T) {
        sync();
        own = detail::warp_max(own);
        sync();
        return own;
    }

    GTR_FN i64 all_scan(i64 own, i64& total) { return detail::warp_scan(own, total); }
};

class BlockTeam : public detail::CudaTeam<BlockTeam> {
  public:
    using CudaTeam::CudaTeam;

    GTR_FN i64 rank() { return threadIdx.x; }
    GTR_FN i64 size() { return blockDim.x; }
    GTR_FN void sync() { __syncthreads(); }

    template <class T>
    GTR_FN T all_sum(T own) {
        T* partial = partials<T>();
        own = detail::warp_sum(own);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = own;
        __syncthreads();
        T total = 0;
        for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += partial[warp];
        __syncthreads();
        return total;
    }

    template <class T>
    GTR_FN T all_max(T own, T lowest) {
        T* partial = partials<T>();
        own = detail::warp_max(own);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = own;
        __syncthreads();
        T greatest = lowest;
        for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) greatest = gtr::max(greatest, partial[warp]);
        __syncthreads();
        return greatest;
    }

    GTR_FN i64 all_scan(i64 own, i64& total) {
        i64* partial = partials<i64>();
        i64 of_warp;
        i64 before = detail::warp_scan(own, of_warp);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = of_warp;
        __syncthreads();
        total = 0;
        for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) {
            if (warp == threadIdx.x / 32) before += total;
            total += partial[warp];
        }
        __syncthreads();
        return before;
    }

  private:
    template <class T>
    static GTR_FN T* partials() {
        static_assert(sizeof(T) <= 8);
        __shared__ u64 memory[32];
        return reinterpret_cast<T*>(memory);
    }
};

// All blocks of a cooperative launch. The workspace begins with what its threads meet at.
class GridTeam : public detail::CudaTeam<GridTeam> {
  public:
    // A counter of arrivals, then a number for each block.
    static GTR_FN i64 meeting_bytes() { return (2 + 2 * static_cast<i64>(gridDim.x)) * 8; }

    GTR_FN GridTeam(u8* meeting, Scratch far)
        : CudaTeam(Scratch(nullptr, 0), far), arrived_(reinterpret_cast<u32*>(meeting)),
          partials_(reinterpret_cast<u64*>(meeting) + 2), flip_(0) {}

    GTR_FN i64 rank() { return static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; }
    GTR_FN i64 size() { return static_cast<i64>(gridDim.x) * blockDim.x; }

    GTR_FN void sync() {
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            // Arrivals are only ever counted up: each meeting waits for the next multiple of the number of blocks.
            u32 ticket = atomicAdd(arrived_, 1u);
            u32 wanted = (ticket / gridDim.x + 1) * gridDim.x;
            while (static_cast<i32>(*reinterpret_cast<volatile u32*>(arrived_) - wanted) < 0) {
            }
            __threadfence();
        }
        __syncthreads();
    }

    template <class T>
    GTR_FN T all_sum(T own) {
        T* partial = publish(BlockTeam(Scratch(nullptr, 0), Scratch(nullptr, 0)).all_sum(own));
        T total = 0;
        for (unsigned block = 0; block < gridDim.x; ++block) total += partial[block];
        return total;
    }

    template <class T>
    GTR_FN T all_max(T own, T lowest) {
        T* partial = publish(BlockTeam(Scratch(nullptr, 0), Scratch(nullptr, 0)).all_max(own, lowest));
        T greatest = lowest;
        for (unsigned block = 0; block < gridDim.x; ++block) greatest = gtr::max(greatest, partial[block]);
        return greatest;
    }

    GTR_FN i64 all_scan(i64 own, i64& total) {
        i64 of_block;
        i64 before = BlockTeam(Scratch(nullptr, 0), Scratch(nullptr, 0)).all_scan(own, of_block);
        i64* partial = publish(of_block);
        total = 0;
        for (unsigned block = 0; block < gridDim.x; ++block) {
            if (block == blockIdx.x) before += total;
            total += partial[block];
        }
        return before;
    }

  private:
    // Two halves by turns, so that a slow block still reads the one while a quick one writes the other.
    template <class T>
    GTR_FN T* publish(T of_block) {
        static_assert(sizeof(T) <= 8);
        T* partial = reinterpret_cast<T*>(partials_ + flip_ * gridDim.x);
        flip_ = 1 - flip_;
        if (threadIdx.x == 0) partial[blockIdx.x] = of_block;
        sync();
        return partial;
    }

    u32* arrived_;
    u64* partials_;
    u32 flip_;
};

GTR_FINISH
