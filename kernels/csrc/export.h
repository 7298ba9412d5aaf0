// What the library exports: for each function, type of elements and variant a symbol that tells
// where the function is and what it takes, so that kernels/library.py needs no list of signatures.
#pragma once

#include <cstdint>
#include <type_traits>

#include "vec.h"

struct Exported {
  void (*address)();
  const char *signature;  // a letter for the result, then one for each argument; see letter_of
};

namespace {

template <class Type> constexpr char letter_of() {
  constexpr bool is_known = std::is_void_v<Type> || std::is_pointer_v<Type> ||
                            std::is_same_v<Type, bool> || std::is_same_v<Type, int> ||
                            std::is_same_v<Type, int64_t> || std::is_same_v<Type, float>;
  static_assert(is_known, "an exported function takes pointers, bool, int, int64_t and float");
  return std::is_void_v<Type>            ? 'v'
         : std::is_pointer_v<Type>       ? 'p'
         : std::is_same_v<Type, bool>    ? 'b'
         : std::is_same_v<Type, int>     ? 'i'
         : std::is_same_v<Type, int64_t> ? 'l'
                                         : 'f';
}

template <class Result, class... Arguments> struct Signature {
  static constexpr char letters[] = {letter_of<Result>(), letter_of<Arguments>()..., 0};
};

template <class Result, class... Arguments>
constexpr const char *signature_of(Result (*)(Arguments...)) {
  return Signature<Result, Arguments...>::letters;
}

}  // namespace

#define SYMBOL_OF(name, type, variant) name##_##type##_##variant
#define SYMBOL(name, type, variant) SYMBOL_OF(name, type, variant)

// Exports `function` as `name` for elements of `type` (f32 or bf16).
#define EXPORT_AS(name, type, function)                                                  \
  extern "C" {                                                                           \
  __attribute__((visibility("default"))) Exported SYMBOL(name, type, VARIANT) = {        \
      reinterpret_cast<void (*)()>(function), signature_of(function)};                   \
  }

// Exports a template over the type of elements, for both types.
#define EXPORT(function)                      \
  EXPORT_AS(function, f32, function<float>)   \
  EXPORT_AS(function, bf16, function<BFloat16>)

// Exports a function of floats.
#define EXPORT_F32(function) EXPORT_AS(function, f32, function)
