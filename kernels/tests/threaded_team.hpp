// A team of several real threads, for tests: a sync() that a body lacks is a data race, which ThreadSanitizer reports.
//
// It does what the teams of a GPU do: loops are strided by rank, scratch is shared, sums and scans meet twice. Every
// place that calls sync(), sum(), max() or scan() is noted, and one of them can be dropped: a dropped sync() does
// nothing; a dropped reduction still gives its result, but orders nothing else.
#pragma once

#include <atomic>
#include <barrier>
#include <map>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtr/team.hpp"

namespace gtr::testing {

using Where = std::source_location;

// A place in a body where threads meet, and whether it is one of sync() alone.
struct Meetings {
    std::mutex noting;
    std::map<std::string, bool> seen;  // "pagerank.hpp:42" to whether it is a sync()
    std::string dropped;

    static Meetings& all() {
        static Meetings meetings;
        return meetings;
    }
};

inline std::string name_of(const Where& where) {
    std::string file = where.file_name();
    return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(where.line());
}

// What the threads of a team share.
struct Shared {
    explicit Shared(i64 size) : size(size), meeting(size), partials(size) {}

    i64 size;
    std::barrier<> meeting;
    std::vector<std::atomic<u64>> partials;
    std::atomic<i64> arrived{0};
};

class ThreadedTeam {
  public:
    ThreadedTeam(Shared& shared, i64 rank, Scratch scratch) : shared_(shared), rank_(rank), scratch_(scratch) {}

    ~ThreadedTeam() {
        // One thread tells: all met at the same places.
        if (rank_ > 0) return;
        std::lock_guard lock(Meetings::all().noting);
        Meetings::all().seen.merge(seen_);
    }

    void reset() { scratch_.reset(); }

    template <class F>
    void each(i64 n, F f) {
        for (i64 i = rank_; i < n; i += shared_.size) f(i);
    }

    template <class F>
    void one(F f) {
        if (rank_ == 0) f();
    }

    void sync(Where where = Where::current()) {
        if (!is_dropped(where, true)) shared_.meeting.arrive_and_wait();
    }

    template <class F>
    auto sum(i64 n, F f, Where where = Where::current()) -> decltype(f(i64())) {
        using T = decltype(f(i64()));
        T own = 0;
        each(n, [&](i64 i) { own += f(i); });
        return reduce(own, T(0), where, [](T left, T right) { return static_cast<T>(left + right); });
    }

    template <class T, class F>
    T max(i64 n, T lowest, F f, Where where = Where::current()) {
        T own = lowest;
        each(n, [&](i64 i) { own = gtr::max(own, f(i)); });
        return reduce(own, lowest, where, [](T left, T right) { return gtr::max(left, right); });
    }

    template <class F, class G>
    i64 scan(i64 n, F f, G put, Where where = Where::current()) {
        const bool ordered = !is_dropped(where, false);
        i64 before = 0;
        meet(ordered);
        for (i64 first = 0; first < n; first += shared_.size) {
            const i64 i = first + rank_;
            publish(i < n ? static_cast<i64>(f(i)) : i64(0));
            meet(ordered);
            i64 here = before;
            for (i64 rank = 0; rank < shared_.size; ++rank) {
                if (rank < rank_) here += partial<i64>(rank);
                before += partial<i64>(rank);
            }
            meet(ordered);
            if (i < n) put(i, here);
        }
        meet(ordered);
        return before;
    }

    i64 size() { return shared_.size; }

    void set_bits(u64* word, u64 bits) { std::atomic_ref(*word).fetch_or(bits, std::memory_order_relaxed); }

    // The rows of a tile are dealt out to the threads as each() deals.
    template <class T, i64 C>
    struct Lanes {
        T of[C] = {};
        T& operator[](i64 lane) { return of[lane]; }
    };

    template <i64 C, class F>
    void tiles(i64 n, F f) {
        for (i64 tile = 0; tile < n; ++tile) f(tile);
    }

    template <i64 C, class F>
    void lanes(F f) {
        each(C, f);
    }

    template <class T, i64 C>
    f64 sum_lanes(Lanes<T, C>& lanes, Where where = Where::current()) {
        return sum(C, [&](i64 lane) { return static_cast<f64>(lanes[lane]); }, where);
    }

    template <class T>
    T* scratch(i64 n) {
        u8* memory = nullptr;
        const i64 bytes = n * static_cast<i64>(sizeof(T));
        if (!scratch_.take(bytes, memory)) scratch_overflow(bytes);
        return reinterpret_cast<T*>(memory);
    }

  private:
    bool is_dropped(const Where& where, bool is_sync) {
        std::string name = name_of(where);
        bool dropped = Meetings::all().dropped == name;
        seen_.emplace(std::move(name), is_sync);
        return dropped;
    }

    // All threads wait for each other. Relaxed counting orders nothing, as far as the sanitizer knows.
    void meet(bool ordered) {
        if (ordered) {
            shared_.meeting.arrive_and_wait();
            return;
        }
        const i64 ticket = shared_.arrived.fetch_add(1, std::memory_order_relaxed);
        const i64 wanted = (ticket / shared_.size + 1) * shared_.size;
        while (shared_.arrived.load(std::memory_order_relaxed) < wanted) std::this_thread::yield();
    }

    template <class T>
    void publish(T own) {
        static_assert(sizeof(T) <= 8);
        u64 bits = 0;
        __builtin_memcpy(&bits, &own, sizeof own);
        shared_.partials[rank_].store(bits, std::memory_order_relaxed);
    }

    template <class T>
    T partial(i64 rank) {
        const u64 bits = shared_.partials[rank].load(std::memory_order_relaxed);
        T value;
        __builtin_memcpy(&value, &bits, sizeof value);
        return value;
    }

    template <class T, class Join>
    T reduce(T own, T first, const Where& where, Join join) {
        const bool ordered = !is_dropped(where, false);
        publish(own);
        meet(ordered);
        T result = first;
        for (i64 rank = 0; rank < shared_.size; ++rank) result = join(result, partial<T>(rank));
        meet(ordered);
        return result;
    }

    Shared& shared_;
    i64 rank_;
    Scratch scratch_;
    std::map<std::string, bool> seen_;
};

// One thread, each of whose arrays of scratch is an allocation of its own, so that AddressSanitizer sees its end.
class StrictTeam : public ThreadTeam {
  public:
    explicit StrictTeam(i64 bytes) : ThreadTeam(Scratch(nullptr, 0)), most_(bytes) {}

    void reset() {
        arrays_.clear();
        used_ = 0;
    }

    template <class T>
    T* scratch(i64 n) {
        const i64 bytes = n * static_cast<i64>(sizeof(T));
        used_ += (bytes + 63) / 64 * 64;
        if (used_ > most_) scratch_overflow(bytes);
        arrays_.emplace_back(new u64[(bytes + 7) / 8]);
        // What a body reads without having written it is at least not 0.
        __builtin_memset(arrays_.back().get(), 0x5a, (bytes + 7) / 8 * 8);
        return reinterpret_cast<T*>(arrays_.back().get());
    }

  private:
    i64 most_;
    i64 used_ = 0;
    std::vector<std::unique_ptr<u64[]>> arrays_;
};

}  // namespace gtr::testing
