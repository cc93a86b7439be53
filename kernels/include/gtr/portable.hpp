// Types and arithmetic that every kernel body may use.
//
// Bodies are compiled by g++, nvcc and NVRTC. NVRTC has no std and no CUDA header unless it is told where they are, so
// nothing is included here.
#pragma once

#if defined(__CUDACC__)
#define GTR_CUDA 1
#define GTR_FN __device__ __forceinline__
#else
#define GTR_FN inline __attribute__((always_inline))
#endif

// The CPU's bodies are compiled once for each instruction set, each time in a namespace of its own, so that the linker
// can't take a function for one processor from the object file for another.
#ifndef GTR_ISA
#define GTR_ISA portable
#endif
#define GTR_BEGIN      \
    namespace gtr {    \
    inline namespace GTR_ISA {
#define GTR_FINISH \
    }              \
    }

namespace gtr {

using u8 = unsigned char;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;
static_assert(sizeof(i32) == 4 && sizeof(i64) == 8 && sizeof(f32) == 4 && sizeof(f64) == 8);

struct bf16 {
    u16 bits;
};

struct f16 {
    u16 bits;
};

GTR_FN f32 to_f32(f32 value) { return value; }

// The bits of a float32, and the float32 of bits.
GTR_FN u32 bits_of(f32 value) {
#ifdef GTR_CUDA
    return __float_as_uint(value);
#else
    u32 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}

GTR_FN f32 f32_of(u32 bits) {
#ifdef GTR_CUDA
    return __uint_as_float(bits);
#else
    f32 value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
#endif
}

GTR_FN f32 to_f32(bf16 value) { return f32_of(static_cast<u32>(value.bits) << 16); }

GTR_FN f32 to_f32(f16 value) {
#ifdef GTR_CUDA
    f32 result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
    return result;
#else
    _Float16 half;
    __builtin_memcpy(&half, &value.bits, sizeof half);
    return static_cast<f32>(half);
#endif
}

// The nearest bf16, ties to the even one; not for NaN.
GTR_FN bf16 to_bf16(f32 value) {
    const u32 bits = bits_of(value);
    return {static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

// A number that is greater where the float32 is, and back; -0 comes right before 0.
GTR_FN u32 ordered_bits(f32 value) {
    const u32 bits = bits_of(value);
    return bits ^ (static_cast<u32>(static_cast<i32>(bits) >> 31) | 0x80000000u);
}

GTR_FN f32 from_ordered_bits(u32 ordered) {
    return f32_of((ordered >> 31) ? ordered & 0x7fffffffu : ~ordered);
}

template <class T>
GTR_FN T min(T left, T right) {
    return right < left ? right : left;
}

template <class T>
GTR_FN T max(T left, T right) {
    return left < right ? right : left;
}

#ifdef GTR_CUDA
GTR_FN f32 abs(f32 value) { return fabsf(value); }
GTR_FN f64 abs(f64 value) { return fabs(value); }
GTR_FN f32 sqrt(f32 value) { return sqrtf(value); }
GTR_FN f64 sqrt(f64 value) { return ::sqrt(value); }
GTR_FN f64 exp(f64 value) { return ::exp(value); }
GTR_FN f64 log1p(f64 value) { return ::log1p(value); }
GTR_FN f64 rint(f64 value) { return ::rint(value); }
GTR_FN f32 rint(f32 value) { return rintf(value); }
GTR_FN i32 popcount(u64 bits) { return __popcll(bits); }
GTR_FN i32 count_trailing_zeros(u64 bits) { return __ffsll(static_cast<i64>(bits)) - 1; }
#else
GTR_FN f32 abs(f32 value) { return __builtin_fabsf(value); }
GTR_FN f64 abs(f64 value) { return __builtin_fabs(value); }
GTR_FN f32 sqrt(f32 value) { return __builtin_sqrtf(value); }
GTR_FN f64 sqrt(f64 value) { return __builtin_sqrt(value); }
GTR_FN f64 exp(f64 value) { return __builtin_exp(value); }
GTR_FN f64 log1p(f64 value) { return __builtin_log1p(value); }
GTR_FN f64 rint(f64 value) { return __builtin_rint(value); }
GTR_FN f32 rint(f32 value) { return __builtin_rintf(value); }
GTR_FN i32 popcount(u64 bits) { return __builtin_popcountll(bits); }
GTR_FN i32 count_trailing_zeros(u64 bits) { return __builtin_ctzll(bits); }
#endif

// Ends a step of a loop around another loop: without it GCC weaves two steps together, and finds no vectors in that.
GTR_FN void end_step() {
#ifndef GTR_CUDA
    asm volatile("");
#endif
}

// Minus infinity: what a reduction by max starts from.
template <class T>
GTR_FN T lowest();

#ifdef GTR_CUDA
template <>
GTR_FN f32 lowest<f32>() {
    return __int_as_float(0xff800000);
}
template <>
GTR_FN f64 lowest<f64>() {
    return __longlong_as_double(0xfff0000000000000);
}
#else
template <>
GTR_FN f32 lowest<f32>() {
    return -__builtin_huge_valf();
}
template <>
GTR_FN f64 lowest<f64>() {
    return -__builtin_huge_val();
}
#endif

}  // namespace gtr
