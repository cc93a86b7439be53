// The entries of the CPU as one Python function: launch(name, arguments, ...). Arrays come by DLPack.
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "gtr/portable.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using namespace gtr;
using Array = nb::ndarray<nb::c_contig, nb::device::cpu>;

struct Argument {
    void* array = nullptr;
    i64 whole = 0;
    f64 real = 0;
};

struct Call {
    const Argument* arguments;
    i64 n_items;
    u8* workspace;
    i64 stride;
    i64 n_teams;
};

// What a parameter takes, by its type.
struct Parameter {
    bool is_array;
    bool is_whole;
    bool is_written;
    nb::dlpack::dtype type;
    std::string name;
};

template <class T>
constexpr nb::dlpack::dtype dtype_of() {
    using Code = nb::dlpack::dtype_code;
    auto code = [] {
        if constexpr (std::is_same_v<T, bf16>) return Code::Bfloat;
        else if constexpr (std::is_same_v<T, f16> || std::is_floating_point_v<T>) return Code::Float;
        else if constexpr (std::is_unsigned_v<T>) return Code::UInt;
        else return Code::Int;
    }();
    return {static_cast<u8>(code), static_cast<u8>(8 * sizeof(T)), 1};
}

template <class P>
Parameter describe() {
    if constexpr (std::is_pointer_v<P>) {
        using T = std::remove_pointer_t<P>;
        return {true, false, !std::is_const_v<T>, dtype_of<std::remove_const_t<T>>(), ""};
    } else {
        static_assert(std::is_same_v<P, i64> || std::is_same_v<P, f64>, "parameters are arrays, i64 or f64");
        return {false, std::is_same_v<P, i64>, false, {}, ""};
    }
}

template <class P>
P value_of(const Argument& argument) {
    if constexpr (std::is_pointer_v<P>) return static_cast<P>(argument.array);
    else if constexpr (std::is_same_v<P, i64>) return argument.whole;
    else return argument.real;
}

// Finds the parameters of an entry before its tail (i64, u8*, i64, i64), and calls it.
template <class Types, class Places>
struct Signature;

template <class... P, std::size_t... I>
struct Signature<void (*)(P...), std::index_sequence<I...>> {
    template <std::size_t N>
    using Type = typename std::tuple_element<N, std::tuple<P...>>::type;

    static std::vector<Parameter> parameters() { return {describe<Type<I>>()...}; }

    static void call(void (*function)(P...), const Call& call) {
        function(value_of<Type<I>>(call.arguments[I])..., call.n_items, call.workspace, call.stride, call.n_teams);
    }
};

template <class F>
struct Arity;

template <class... P>
struct Arity<void (*)(P...)> {
    using Places = std::make_index_sequence<sizeof...(P) - 4>;
};

struct Entry {
    const char* name;
    std::vector<Parameter> parameters;
    void (*call)(void (*)(), const Call&);
    std::vector<void (*)()> functions;  // one for each instruction set
};

std::vector<Entry>& entries() {
    static std::vector<Entry> all;
    return all;
}

// "const i64* offsets, f64 damping" to {"offsets", "damping"}.
std::vector<std::string> names_in(const std::string& declaration) {
    std::vector<std::string> names;
    std::size_t begin = 0;
    while (begin <= declaration.size()) {
        std::size_t end = declaration.find(',', begin);
        if (end == std::string::npos) end = declaration.size();
        std::size_t last = declaration.find_last_not_of(' ', end - 1);
        std::size_t first = declaration.find_last_of(" *", last) + 1;
        names.push_back(declaration.substr(first, last - first + 1));
        begin = end + 1;
    }
    return names;
}

struct Registration {
    template <class F>
    Registration(const char* name, const char* declaration, std::initializer_list<F> functions) {
        using S = Signature<F, typename Arity<F>::Places>;
        Entry entry{name, S::parameters(), nullptr, {}};
        std::vector<std::string> names = names_in(declaration);
        for (std::size_t i = 0; i < names.size(); ++i) entry.parameters[i].name = names[i];
        entry.call = [](void (*function)(), const Call& call) { S::call(reinterpret_cast<F>(function), call); };
        for (F function : functions) entry.functions.push_back(reinterpret_cast<void (*)()>(function));
        entries().push_back(std::move(entry));
    }
};

}  // namespace

// An entry's text becomes its declaration for each instruction set and its registration; what follows is only parsed.
#define GTR_TAIL i64 n_items, u8 *workspace, i64 stride, i64 n_teams
#ifdef GTR_X86
#define GTR_DECLARE(name, ...)                              \
    namespace baseline { void name(__VA_ARGS__, GTR_TAIL); } \
    namespace avx2 { void name(__VA_ARGS__, GTR_TAIL); }     \
    namespace avx512 { void name(__VA_ARGS__, GTR_TAIL); }
#define GTR_SETS(name) {&baseline::name, &avx2::name, &avx512::name}
#else
#define GTR_DECLARE(name, ...) \
    namespace baseline { void name(__VA_ARGS__, GTR_TAIL); }
#define GTR_SETS(name) {&baseline::name}
#endif
#define GTR_ENTRY(name, Kind, ...)                                              \
    namespace gtr {                                                             \
    GTR_DECLARE(name, __VA_ARGS__)                                              \
    static Registration register_##name(#name, #__VA_ARGS__, GTR_SETS(name));   \
    template <class Team>                                                       \
    void parsed_##name(Team& team, i64 item, __VA_ARGS__) {
#define GTR_END \
    }           \
    }
#include "gtr/all.hpp"

namespace {

const char* const set_names[] = {"baseline", "avx2", "avx512"};

std::vector<std::string> instruction_sets() {
    std::vector<std::string> usable{"baseline"};
#ifdef GTR_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v3")) usable.push_back("avx2");
    if (__builtin_cpu_supports("x86-64-v4")) usable.push_back("avx512");
#endif
    return usable;
}

std::size_t chosen_set = 0;

std::string set_name() { return set_names[chosen_set]; }

void choose_set(const std::string& name) {
    std::vector<std::string> usable = instruction_sets();
    for (std::size_t i = 0; i < usable.size(); ++i) {
        if (usable[i] == name) {
            chosen_set = i;
            return;
        }
    }
    throw nb::value_error(("this processor has no instruction set '" + name + "'").c_str());
}

[[noreturn]] void refuse(const Entry& entry, const Parameter& parameter, const std::string& expected) {
    throw nb::type_error((std::string(entry.name) + ": " + parameter.name + " must be " + expected).c_str());
}

std::string type_name(nb::dlpack::dtype type) {
    const char* kinds[] = {"int", "uint", "float", "", "bfloat", "complex", "bool"};
    return kinds[type.code] + std::to_string(type.bits);
}

void launch(const std::string& name, nb::list given, i64 n_items, nb::object workspace, i64 stride, i64 n_teams) {
    const Entry* entry = nullptr;
    for (const Entry& candidate : entries()) {
        if (name == candidate.name) entry = &candidate;
    }
    if (!entry) throw nb::key_error(("there is no kernel " + name).c_str());
    const std::vector<Parameter>& parameters = entry->parameters;
    if (given.size() != parameters.size()) {
        throw nb::type_error((name + " takes " + std::to_string(parameters.size()) + " arguments, got " +
                              std::to_string(given.size())).c_str());
    }
    std::vector<Argument> arguments(parameters.size());
    std::vector<Array> kept(parameters.size() + 1);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Parameter& parameter = parameters[i];
        nb::handle value = given[i];
        if (!parameter.is_array) {
            if (parameter.is_whole ? !nb::try_cast(value, arguments[i].whole) : !nb::try_cast(value, arguments[i].real)) {
                refuse(*entry, parameter, parameter.is_whole ? "a whole number" : "a number");
            }
            continue;
        }
        if (value.is_none()) continue;
        if (!nb::try_cast(value, kept[i], false)) refuse(*entry, parameter, "a contiguous array on the CPU");
        nb::dlpack::dtype type = kept[i].dtype();
        bool flag = type.code == static_cast<u8>(nb::dlpack::dtype_code::Bool) && type.bits == 8;
        if (flag) type = dtype_of<u8>();
        if (type != parameter.type) {
            refuse(*entry, parameter, type_name(parameter.type) + ", got " + type_name(kept[i].dtype()));
        }
        arguments[i].array = kept[i].data();
    }
    if (stride < 0 || n_teams < 1 || n_items < 0) throw nb::value_error("stride, teams and items can't be negative");
    u8* memory = nullptr;
    if (stride > 0) {
        if (!nb::try_cast(workspace, kept.back(), false) || static_cast<i64>(kept.back().nbytes()) < stride * n_teams) {
            throw nb::type_error((name + ": the workspace must be an array of at least stride * teams bytes").c_str());
        }
        memory = static_cast<u8*>(kept.back().data());
    }
    nb::gil_scoped_release released;
    entry->call(entry->functions[chosen_set], {arguments.data(), n_items, memory, stride, n_teams});
}

std::vector<std::string> entry_names() {
    std::vector<std::string> names;
    for (const Entry& entry : entries()) names.push_back(entry.name);
    return names;
}

}  // namespace

NB_MODULE(_native, module) {
    nb::set_leak_warnings(false);
    chosen_set = instruction_sets().size() - 1;
    module.def("launch", &launch, "name"_a, "arguments"_a, "n_items"_a, "workspace"_a.none(), "stride"_a, "n_teams"_a);
    module.def("entries", &entry_names);
    module.def("instruction_set", &set_name);
    module.def("instruction_sets", &instruction_sets);
    module.def("use_instruction_set", &choose_set, "name"_a);
}
