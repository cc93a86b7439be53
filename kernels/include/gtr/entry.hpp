// How a body becomes something that can be called: a function of the CPU extension, a kernel on a GPU, a test's template.
//
//     GTR_ENTRY(name, Block, const f32* values, const i64* offsets, f32* sums)
//         segment_sum(team, item, values, offsets, sums);
//     GTR_END
//
// The code between the two works on one item; `Block` says which team does so on a GPU (Warp, Block or Grid). Parameters
// are pointers to arrays (const where they are only read), i64 and f64. Callers add what every entry takes: how many
// items there are, and the workspace for scratch. They learn names and types from this very text, so parameters are
// written as above, on one line or several, without comments between them.
#pragma once

#include "gtr/team.hpp"

#if defined(GTR_CUDA)

// The size of the launch's dynamic shared memory; a team takes its scratch from there first.
#define GTR_SHARED extern __shared__ __align__(64) u8 gtr_shared[]

GTR_BEGIN

GTR_FN WarpTeam make_team(WarpTeam*, u8* shared, i64 shared_bytes, u8* workspace, i64 stride) {
    i64 warps = blockDim.x / 32, warp = threadIdx.x / 32, near = shared_bytes / warps / 64 * 64;
    return WarpTeam(Scratch(shared + warp * near, near),
                    Scratch(workspace + (blockIdx.x * warps + warp) * stride, stride));
}
GTR_FN BlockTeam make_team(BlockTeam*, u8* shared, i64 shared_bytes, u8* workspace, i64 stride) {
    return BlockTeam(Scratch(shared, shared_bytes), Scratch(workspace + blockIdx.x * stride, stride));
}
GTR_FN GridTeam make_team(GridTeam*, u8*, i64, u8* workspace, i64 stride) {
    i64 meeting = (GridTeam::meeting_bytes() + 63) / 64 * 64;
    return GridTeam(workspace, Scratch(workspace + meeting, stride - meeting));
}

GTR_FN i64 team_number(WarpTeam*) { return (static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x) / 32; }
GTR_FN i64 team_number(BlockTeam*) { return blockIdx.x; }
GTR_FN i64 team_number(GridTeam*) { return 0; }
GTR_FN i64 team_count(WarpTeam*) { return static_cast<i64>(gridDim.x) * (blockDim.x / 32); }
GTR_FN i64 team_count(BlockTeam*) { return gridDim.x; }
GTR_FN i64 team_count(GridTeam*) { return 1; }

GTR_FINISH

// Two blocks at least on a multiprocessor: without that wish the compiler would rather spill than give up a third one.
#define GTR_ENTRY(name, Kind, ...)                                                                            \
    namespace gtr {                                                                                           \
    extern "C" __global__ void __launch_bounds__(256, 2)                                                      \
        name(__VA_ARGS__, i64 n_items, u8* workspace, i64 stride, i64 shared_bytes) {                         \
        GTR_SHARED;                                                                                           \
        Kind##Team* kind = nullptr;                                                                           \
        Kind##Team team = make_team(kind, gtr_shared, shared_bytes, workspace, stride);                       \
        for (i64 item = team_number(kind); item < n_items; item += team_count(kind)) {                        \
            team.reset();
#define GTR_END  \
    team.sync(); \
    }            \
    }            \
    }

#elif !defined(GTR_ENTRY)

// For tests: a template over any team.
#define GTR_ENTRY(name, Kind, ...) \
    namespace gtr {                \
    template <class Team>          \
    void name(Team& team, i64 item, __VA_ARGS__) {
#define GTR_END \
    }           \
    }

#endif
