#include "run_teams.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace gtr {

void scratch_overflow(i64 bytes) {
    throw std::length_error("a kernel asked for " + std::to_string(bytes) + " bytes of scratch more than it was given");
}

namespace {

// What the threads of one call share; it outlives the call for those that come too late.
struct Work {
    i64 n_items;
    i64 portion;
    void (*work)(void*, i64, i64, i64);
    void* context;
    std::atomic<i64> next{0};
    std::mutex lock;
    std::condition_variable left;
    i64 n_working = 0;
    bool over = false;
    std::exception_ptr failure;

    void run(i64 team) {
        try {
            for (i64 begin = next.fetch_add(portion); begin < n_items; begin = next.fetch_add(portion)) {
                work(context, team, begin, std::min(begin + portion, n_items));
            }
        } catch (...) {
            std::lock_guard locked(lock);
            failure = std::current_exception();
            next = n_items;
        }
    }

    void join_in(i64 team) {
        {
            std::lock_guard locked(lock);
            if (over) return;
            ++n_working;
        }
        run(team);
        std::lock_guard locked(lock);
        if (--n_working == 0) left.notify_one();
    }
};

}  // namespace

void run_teams(i64 n_items, i64 n_teams, void (*work)(void*, i64, i64, i64), void* context) {
    n_teams = std::max<i64>(1, std::min(n_teams, n_items));
    if (n_teams == 1) {
        if (n_items > 0) work(context, 0, 0, n_items);
        return;
    }
    // Items differ in size, so a thread takes a few at a time.
    auto shared = std::make_shared<Work>();
    shared->n_items = n_items;
    shared->portion = std::max<i64>(1, n_items / (n_teams * 16));
    shared->work = work;
    shared->context = context;
    try {
        for (i64 team = 1; team < n_teams; ++team) std::thread([=] { shared->join_in(team); }).detach();
    } catch (const std::system_error&) {
        // The machine has no more threads to give: those that there are do the work.
    }
    shared->run(0);
    // On a busy machine a thread may take milliseconds to begin: one that finds all work taken is not waited for.
    std::unique_lock locked(shared->lock);
    shared->over = true;
    shared->left.wait(locked, [&] { return shared->n_working == 0; });
    if (shared->failure) std::rethrow_exception(shared->failure);
}

}  // namespace gtr
