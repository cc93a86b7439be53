// What the tests of kernels share: running an entry on several teams, comparing, and dropping meetings one by one.
//
// A program runs its checks and fails where one does. With --each-meeting it runs itself once for each sync() of its
// kernels, with that one dropped, and fails where ThreadSanitizer does not report it: then the sync() isn't needed, or
// the checks are too small to show that it is.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "threaded_team.hpp"

namespace gtr {

inline void scratch_overflow(i64 bytes) {
    std::cerr << "a body asked for " << bytes << " bytes of scratch more than it was given\n";
    std::abort();
}

namespace testing {

inline int failures = 0;

template <class... Parts>
void expect(bool holds, const Parts&... parts) {
    if (holds) return;
    ++failures;
    if (failures > 20) return;
    std::cerr << "FAILED: ";
    (std::cerr << ... << parts) << "\n";
}

template <class T>
void expect_equal(const std::string& what, const std::vector<T>& found, const std::vector<T>& expected) {
    expect(found.size() == expected.size(), what, ": ", found.size(), " items instead of ", expected.size());
    for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
        expect(found[i] == expected[i], what, "[", i, "] is ", +found[i], " instead of ", +expected[i]);
    }
}

template <class T>
void expect_near(const std::string& what, const std::vector<T>& found, const std::vector<T>& expected, double within) {
    expect(found.size() == expected.size(), what, ": ", found.size(), " items instead of ", expected.size());
    for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
        const bool near = found[i] == expected[i] || std::abs(double(found[i]) - double(expected[i])) <= within;
        expect(near, what, "[", i, "] is ", found[i], " instead of ", expected[i]);
    }
}

// Calls body(team, item) for all items on one thread, as the CPU does.
template <class Body>
void run_on_one_thread(i64 n_items, i64 scratch, Body body) {
    StrictTeam team(scratch);
    for (i64 item = 0; item < n_items; ++item) {
        team.reset();
        body(team, item);
    }
}

// Calls body(team, item) for all items on one team of several threads, as a block of a GPU does.
template <class Body>
void run_on_threads(i64 n_threads, i64 n_items, i64 scratch, Body body) {
    Shared shared(n_threads);
    std::vector<u64> memory(scratch / 8 + 16, 0x5a5a5a5a5a5a5a5aull);
    u8* begin = reinterpret_cast<u8*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
    std::vector<std::thread> threads;
    for (i64 rank = 0; rank < n_threads; ++rank) {
        threads.emplace_back([&, rank] {
            ThreadedTeam team(shared, rank, Scratch(begin, scratch));
            for (i64 item = 0; item < n_items; ++item) {
                team.reset();
                body(team, item);
                shared.meeting.arrive_and_wait();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

// Compares what teams of several sizes give with what one thread gives.
//
// Arrays should be std::vectors of exactly the needed size (a copy of a grown vector is), so that AddressSanitizer sees
// their ends. make() gives a new object of outputs; run(team, item, outputs) is one item's work; same(found, expected) compares.
template <class Make, class Run, class Same>
void compare_teams(i64 n_items, i64 scratch, Make make, Run run, Same same) {
    auto expected = make();
    run_on_one_thread(n_items, scratch, [&](auto& team, i64 item) { run(team, item, expected); });
    for (i64 n_threads : {1, 2, 3, 4}) {
        auto found = make();
        run_on_threads(n_threads, n_items, scratch, [&](auto& team, i64 item) { run(team, item, found); });
        same(found, expected);
    }
}

// What scratch_bytes does in Python.
template <class... Sizes>
i64 scratch_for(Sizes... bytes) {
    return (((static_cast<i64>(bytes) + 63) / 64 * 64) + ... + 0);
}

class Random {
  public:
    explicit Random(u32 seed) : engine_(seed) {}
    i64 below(i64 n) { return static_cast<i64>(engine_() % static_cast<u64>(n)); }
    f32 unit() { return static_cast<f32>(engine_() >> 40) / static_cast<f32>(1 << 24); }
    bool chance(double share) { return unit() < share; }

  private:
    std::mt19937_64 engine_;
};

constexpr int REPORTED = 66;  // how ThreadSanitizer ends a program in which it found a race

// How a program ends that is run as: program [before] --drop dropped [after].
inline int run_itself(const std::string& program, const std::string& dropped, std::vector<std::string> around = {}) {
    std::vector<std::string> words{program, "--drop", dropped};
    if (!around.empty()) words = {program, around[0], "--drop", dropped, around[1]};
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    pid_t child = fork();
    if (child == 0) {
        setenv("TSAN_OPTIONS", "halt_on_error=1:exitcode=66:log_path=/dev/null:report_signal_unsafe=0", 1);
        alarm(120);  // threads that wait for each other for ever
        execv(program.c_str(), pointers.data());
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Prints what came of dropping a place; 1 where it was a sync() and nothing was reported.
inline int tell(const std::string& place, bool is_sync, int status) {
    const bool found = status == REPORTED;
    std::cout << place << (is_sync ? " sync" : " reduction") << ": "
              << (found ? "reported" : is_sync ? "NOT REPORTED" : "orders nothing that is checked") << "\n";
    if (!found && status != 0) std::cout << "    (it ended with " << status << ")\n";
    return is_sync && !found;
}

inline int drop_each_meeting(const std::string& program, const std::function<void()>& checks) {
    checks();
    if (failures > 0) return 1;
    if (run_itself(program, "none") != 0) {
        std::cerr << "FAILED: the checks do not pass with nothing dropped\n";
        return 1;
    }
    int reported = 0, silent = 0;
    for (const auto& [place, is_sync] : Meetings::all().seen) {
        const int status = run_itself(program, place);
        reported += status == REPORTED;
        silent += tell(place, is_sync, status);
    }
    if (reported == 0) std::cout << "FAILED: no meeting was reported, so the test could miss one\n";
    if (silent > 0) std::cout << "FAILED: " << silent << " sync() could be left out as far as the checks know\n";
    return reported == 0 || silent > 0;
}

inline int main_of(int n_arguments, char** arguments, const std::function<void()>& checks) {
    const std::string mode = n_arguments > 1 ? arguments[1] : "";
    if (mode == "--each-meeting") return drop_each_meeting(arguments[0], checks);
    if (mode == "--drop") Meetings::all().dropped = arguments[2];
    checks();
    if (failures > 0) std::cerr << failures << " checks failed\n";
    return failures > 0;
}

}  // namespace testing
}  // namespace gtr

#define GTR_TEST_MAIN(checks) \
    int main(int n_arguments, char** arguments) { return gtr::testing::main_of(n_arguments, arguments, checks); }
