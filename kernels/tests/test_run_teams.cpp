// The threads that share a batch's items: each item once, and what one of them throws reaches the caller.
#include "../cpu/run_teams.cpp"

#include <iostream>
#include <vector>

using namespace gtr;

namespace {

int failures = 0;

void expect(bool holds, const char* what, i64 n_items, i64 n_teams) {
    if (holds) return;
    ++failures;
    std::cerr << "FAILED: " << what << " (" << n_items << " items, " << n_teams << " teams)\n";
}

struct Batch {
    std::vector<i64> visits;  // not atomic: no two threads may have the same item
    std::vector<i64> of_team;
    i64 bad = -1;
};

void visit(void* context, i64 team, i64 begin, i64 end) {
    Batch& batch = *static_cast<Batch*>(context);
    for (i64 item = begin; item < end; ++item) {
        if (item == batch.bad) throw std::length_error("bad");
        ++batch.visits[item];
        ++batch.of_team[team];
    }
}

void check(i64 n_items, i64 n_teams) {
    Batch batch{std::vector<i64>(n_items), std::vector<i64>(n_teams)};
    run_teams(n_items, n_teams, visit, &batch);
    i64 done = 0;
    for (i64 count : batch.of_team) done += count;
    expect(done == n_items, "the teams' items", n_items, n_teams);
    expect(batch.visits == std::vector<i64>(n_items, 1), "visits", n_items, n_teams);
}

void check_failure(i64 n_items, i64 n_teams) {
    Batch batch{std::vector<i64>(n_items), std::vector<i64>(n_teams), n_items / 2};
    bool thrown = false;
    try {
        run_teams(n_items, n_teams, visit, &batch);
    } catch (const std::length_error&) {
        thrown = true;
    }
    expect(thrown, "nothing was thrown", n_items, n_teams);
}

}  // namespace

int main() {
    for (int round = 0; round < 50; ++round) {
        for (i64 n_items : {0, 1, 2, 3, 7, 100, 1000}) {
            for (i64 n_teams : {1, 2, 4, 9}) {
                check(n_items, n_teams);
                if (n_items > 0) check_failure(n_items, n_teams);
            }
        }
    }
    return failures > 0;
}
