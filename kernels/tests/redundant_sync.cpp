// A body with a sync() that nothing needs: what drops each sync() must say so.
#include "testing.hpp"

using namespace gtr;
using namespace gtr::testing;

namespace {

void checks() {
    compare_teams(
        1, scratch_for(64), [] { return std::vector<i64>(8); },
        [](auto& team, i64, std::vector<i64>& doubled) {
            i64* copy = team.template scratch<i64>(8);
            team.each(8, [&](i64 i) { copy[i] = i; });
            team.sync();
            team.each(8, [&](i64 i) { doubled[i] = copy[7 - i]; });
            team.sync();
            team.each(8, [&](i64 i) { doubled[i] *= 2; });
        },
        [](const std::vector<i64>& found, const std::vector<i64>& expected) {
            expect_equal("doubled", found, expected);
        });
}

}  // namespace

GTR_TEST_MAIN(checks)
