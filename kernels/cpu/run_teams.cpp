#include "run_teams.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace gtr {

void scratch_overflow(i64 bytes) {
    throw std::length_error("a kernel asked for " + std::to_string(bytes) + " bytes of scratch more than it was given");
}

void run_teams(i64 n_items, i64 n_teams, void (*work)(void*, i64, i64, i64), void* context) {
    n_teams = std::max<i64>(1, std::min(n_teams, n_items));
    if (n_teams == 1) {
        if (n_items > 0) work(context, 0, 0, n_items);
        return;
    }
    // Items differ in size, so a thread takes a few at a time.
    const i64 portion = std::max<i64>(1, n_items / (n_teams * 16));
    std::atomic<i64> next{0};
    std::exception_ptr failure;
    std::mutex failing;
    auto run = [&](i64 team) {
        try {
            for (i64 begin = next.fetch_add(portion); begin < n_items; begin = next.fetch_add(portion)) {
                work(context, team, begin, std::min(begin + portion, n_items));
            }
        } catch (...) {
            std::lock_guard lock(failing);
            failure = std::current_exception();
            next = n_items;
        }
    };
    std::vector<std::thread> threads;
    try {
        for (i64 team = 1; team < n_teams; ++team) threads.emplace_back(run, team);
    } catch (const std::system_error&) {
        // The machine has no more threads to give: those that there are do the work.
    }
    run(0);
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace gtr
