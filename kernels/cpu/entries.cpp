// The entries for one instruction set: GTR_ISA names it, and the compiler's flags are its.
#include "run_teams.hpp"

#include "gtr/team.hpp"

#define GTR_ENTRY(name, Kind, ...)                                                                            \
    namespace gtr {                                                                                           \
    inline namespace GTR_ISA {                                                                                \
    void name(__VA_ARGS__, i64 n_items, u8* workspace, i64 stride, i64 n_teams) {                             \
        auto run = [=](i64 number, i64 begin, i64 end) __attribute__((flatten)) {                             \
            ThreadTeam team{Scratch(workspace + number * stride, stride)};                                    \
            for (i64 item = begin; item < end; ++item) {                                                      \
                team.reset();

#define GTR_END                                                                                               \
    }                                                                                                         \
    }                                                                                                         \
    ;                                                                                                         \
    run_teams(                                                                                                \
        n_items, n_teams,                                                                                     \
        [](void* context, i64 number, i64 begin, i64 end) {                                                   \
            (*static_cast<decltype(run)*>(context))(number, begin, end);                                      \
        },                                                                                                    \
        &run);                                                                                                \
    }                                                                                                         \
    }                                                                                                         \
    }

#include "gtr/all.hpp"
