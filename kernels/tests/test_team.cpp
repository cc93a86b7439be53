// The teams themselves, against loops.
#include "testing.hpp"

using namespace gtr;
using namespace gtr::testing;

namespace {

struct Outputs {
    std::vector<i32> visits;
    std::vector<i64> sums, maxima, scanned, totals, ones, reversed;
};

// Every function of a team, with a sync() between what one thread writes and another reads.
template <class Team>
void everything(Team& team, i64 item, i64 n, const i64* values, Outputs& outputs) {
    team.each(n, [&](i64 i) { ++outputs.visits[item * n + i]; });
    const i64 sum = team.sum(n, [&](i64 i) { return values[i]; });
    const i64 greatest = team.max(n, i64(-100), [&](i64 i) { return values[i]; });
    i64* copy = team.template scratch<i64>(n);
    f32* other = team.template scratch<f32>(1);
    expect(reinterpret_cast<std::uintptr_t>(other) % 4 == 0, "scratch is not aligned");
    team.each(n, [&](i64 i) { copy[i] = values[i]; });
    team.sync();
    team.each(n, [&](i64 i) { outputs.reversed[item * n + i] = copy[n - 1 - i]; });
    const i64 total = team.scan(
        n, [&](i64 i) { return values[i]; }, [&](i64 i, i64 before) { outputs.scanned[item * n + i] = before; });
    team.one([&] {
        ++outputs.ones[item];
        outputs.sums[item] = sum;
        outputs.maxima[item] = greatest;
        outputs.totals[item] = total;
    });
}

void check(i64 n) {
    const i64 n_items = 3;
    std::vector<i64> values(n), scanned;
    Random random(7);
    for (i64& value : values) value = random.below(50) - 25;
    i64 sum = 0, greatest = -100;
    for (i64 value : values) {
        scanned.push_back(sum);
        sum += value;
        greatest = std::max(greatest, value);
    }
    std::vector<i64> reversed(values.rbegin(), values.rend());
    auto same = [&](const Outputs& found) {
        expect_equal("visits", found.visits, std::vector<i32>(n * n_items, 1));
        expect_equal("ones", found.ones, std::vector<i64>(n_items, 1));
        expect_equal("sums", found.sums, std::vector<i64>(n_items, sum));
        expect_equal("maxima", found.maxima, std::vector<i64>(n_items, greatest));
        expect_equal("totals", found.totals, std::vector<i64>(n_items, sum));
        for (i64 item = 0; item < n_items; ++item) {
            for (i64 i = 0; i < n; ++i) {
                expect(found.scanned[item * n + i] == scanned[i], "scanned[", i, "]");
                expect(found.reversed[item * n + i] == reversed[i], "reversed[", i, "]");
            }
        }
    };
    const std::vector<i64> none(n_items), rows(n * n_items);
    compare_teams(
        n_items, scratch_for(n * 8, 4),
        [&] { return Outputs{std::vector<i32>(n * n_items), none, none, rows, none, none, rows}; },
        [&](auto& team, i64 item, Outputs& outputs) { everything(team, item, n, values.data(), outputs); },
        [&](const Outputs& found, const Outputs& expected) {
            same(found);
            same(expected);
        });
}

void checks() {
    for (i64 n : {0, 1, 2, 3, 5, 64, 101}) check(n);
}

}  // namespace

GTR_TEST_MAIN(checks)
