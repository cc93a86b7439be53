// Every kernel on the arguments that the tests in Python gave it, see record.py: teams of several threads against one.
//
//     replay FILE                 does all launches
//     replay FILE --each-meeting  does them with each sync() left out once, which ThreadSanitizer must report
#include <cstring>
#include <fstream>
#include <set>
#include <type_traits>

#include "testing.hpp"

using namespace gtr;
using namespace gtr::testing;

namespace {

struct Argument {
    bool given = false;
    std::vector<u8> bytes;
    i64 whole = 0;
    f64 real = 0;
};

struct Launch {
    std::string name;
    i64 n_items, scratch;
    std::vector<Argument> arguments;
};

template <class P>
P value_of(Argument& argument) {
    if constexpr (std::is_pointer_v<P>) return argument.given ? reinterpret_cast<P>(argument.bytes.data()) : nullptr;
    else if constexpr (std::is_same_v<P, i64>) return argument.whole;
    else return argument.real;
}

constexpr bool is_grid(const char* kind) { return kind[0] == 'G'; }

// Whether two results are the same: numbers within what sums in another order may change.
template <class P>
void compare(const std::string& what, const Argument& found, const Argument& expected) {
    if constexpr (std::is_pointer_v<P>) {
        using T = std::remove_pointer_t<P>;
        if constexpr (!std::is_const_v<T>) {
            const i64 n = static_cast<i64>(expected.bytes.size() / sizeof(T));
            const T* left = reinterpret_cast<const T*>(found.bytes.data());
            const T* right = reinterpret_cast<const T*>(expected.bytes.data());
            for (i64 i = 0; i < n; ++i) {
                if (std::memcmp(left + i, right + i, sizeof(T)) == 0) continue;
                if constexpr (std::is_floating_point_v<T>) {
                    const f64 apart = std::abs(f64(left[i]) - f64(right[i]));
                    expect(apart <= 2e-5 * std::max(1.0, std::abs(f64(right[i]))), what, "[", i, "] is ", left[i],
                           " instead of ", right[i]);
                } else if constexpr (std::is_arithmetic_v<T>) {
                    expect(false, what, "[", i, "] is ", +left[i], " instead of ", +right[i]);
                } else {
                    expect(false, what, "[", i, "] differs");
                }
            }
        }
    }
}

struct Entry {
    std::function<void(Launch&)> on_one_thread;
    std::function<void(Launch&, i64)> on_threads;
    std::function<void(const std::string&, const Launch&, const Launch&)> compare_results;
};

std::map<std::string, Entry>& entries() {
    static std::map<std::string, Entry> all;
    return all;
}

template <class Team, class... P, std::size_t... I>
void call(void (*body)(Team&, i64, P...), Team& team, i64 item, Launch& launch, std::index_sequence<I...>) {
    body(team, item, value_of<P>(launch.arguments[I])...);
}

template <class... P, std::size_t... I>
void compare_all(const std::string& what, const Launch& found, const Launch& expected, std::index_sequence<I...>) {
    (compare<P>(what + " argument " + std::to_string(I), found.arguments[I], expected.arguments[I]), ...);
}

struct Registration {
    template <class... P>
    Registration(const char* name, bool is_grid, void (*strict)(StrictTeam&, i64, P...), void (*threaded)(ThreadedTeam&, i64, P...)) {
        if (is_grid) return;  // the body of another entry, which CPUs never ask for
        constexpr auto places = std::index_sequence_for<P...>();
        entries()[name] = {
            [=](Launch& launch) {
                run_on_one_thread(launch.n_items, launch.scratch,
                                  [&](StrictTeam& team, i64 item) { call(strict, team, item, launch, places); });
            },
            [=](Launch& launch, i64 n_threads) {
                run_on_threads(n_threads, launch.n_items, launch.scratch,
                               [&](ThreadedTeam& team, i64 item) { call(threaded, team, item, launch, places); });
            },
            [](const std::string& what, const Launch& found, const Launch& expected) {
                compare_all<P...>(what, found, expected, std::index_sequence_for<P...>());
            }};
    }
};

}  // namespace

#define GTR_ENTRY(name, Kind, ...)                                                                    \
    namespace gtr {                                                                                   \
    template <class Team>                                                                             \
    void entry_##name(Team& team, i64 item, __VA_ARGS__);                                             \
    static Registration register_##name(#name, is_grid(#Kind), &entry_##name<StrictTeam>, &entry_##name<ThreadedTeam>); \
    template <class Team>                                                                             \
    void entry_##name(Team& team, i64 item, __VA_ARGS__) {
#define GTR_END \
    }           \
    }
#include "gtr/all.hpp"

namespace {

template <class T>
T read(std::ifstream& file) {
    T value{};
    file.read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
}

std::vector<Launch> read_launches(const char* path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<Launch> launches;
    while (file.peek() != std::ifstream::traits_type::eof()) {
        Launch launch;
        launch.name.resize(read<i64>(file));
        file.read(launch.name.data(), static_cast<std::streamsize>(launch.name.size()));
        launch.n_items = read<i64>(file);
        launch.scratch = read<i64>(file);
        launch.arguments.resize(read<i64>(file));
        for (Argument& argument : launch.arguments) {
            const char kind = read<char>(file);
            argument.given = kind != 'n';
            if (kind == 'i') argument.real = static_cast<f64>(argument.whole = read<i64>(file));
            if (kind == 'f') argument.real = read<f64>(file);
            if (kind == 'a') {
                argument.bytes.resize(read<i64>(file));
                file.read(reinterpret_cast<char*>(argument.bytes.data()),
                          static_cast<std::streamsize>(argument.bytes.size()));
            }
        }
        launches.push_back(std::move(launch));
    }
    expect(!launches.empty(), "there are no launches in ", path);
    return launches;
}

void replay(const Launch& launch, i64 number) {
    const Entry& entry = entries().at(launch.name);
    Launch expected = launch;
    entry.on_one_thread(expected);
    for (i64 n_threads : {1, 3, 4}) {
        Launch found = launch;
        entry.on_threads(found, n_threads);
        entry.compare_results(launch.name + " (launch " + std::to_string(number) + ")", found, expected);
    }
}

// The launches that meet at a place are done with that place dropped, each in a process until one is reported.
int without(const std::string& program, const char* path, const std::string& place, const std::set<i64>& launches) {
    std::string numbers;
    for (i64 number : launches) numbers += std::to_string(number) + ",";
    return run_itself(program, place, {path, numbers});
}

int drop_each(const std::string& program, const char* path, const std::vector<Launch>& launches) {
    std::map<std::string, std::pair<bool, std::set<i64>>> places;
    for (i64 number = 0; number < static_cast<i64>(launches.size()); ++number) {
        Meetings::all().seen.clear();
        replay(launches[number], number);
        for (const auto& [place, is_sync] : Meetings::all().seen) {
            places[place].first |= is_sync;
            places[place].second.insert(number);
        }
    }
    if (failures > 0) return 1;
    int silent = 0;
    for (const auto& [place, at] : places) {
        if (!at.first) continue;  // a reduction is there for its result
        const int status = without(program, path, place, at.second);
        silent += tell(place, at.first, status);
    }
    if (silent > 0) std::cout << "FAILED: " << silent << " sync() could be left out as far as these launches know\n";
    return silent > 0;
}

}  // namespace

int main(int n_arguments, char** arguments) {
    if (n_arguments < 2) return 2;
    const std::vector<Launch> launches = read_launches(arguments[1]);
    const std::string mode = n_arguments > 2 ? arguments[2] : "";
    if (mode == "--each-meeting") return drop_each(arguments[0], arguments[1], launches);
    std::set<i64> chosen;
    if (mode == "--drop") {
        Meetings::all().dropped = arguments[3];
        std::istringstream numbers(arguments[4]);
        for (std::string number; std::getline(numbers, number, ',');) chosen.insert(std::stoll(number));
    }
    std::set<std::string> done;
    for (i64 number = 0; number < static_cast<i64>(launches.size()); ++number) {
        if (mode == "--drop" && !chosen.count(number)) continue;
        replay(launches[number], number);
        done.insert(launches[number].name);
    }
    if (mode.empty()) {
        for (const auto& [name, entry] : entries()) expect(done.count(name), "no launch of ", name);
        std::cout << launches.size() << " launches of " << done.size() << " kernels\n";
    }
    if (failures > 0) std::cerr << failures << " checks failed\n";
    return failures > 0;
}
