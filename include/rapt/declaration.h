#pragma once
// The declaration of a mask, score, normaliser or method: name, purpose, source, parameters.
//
// A variant is a struct whose parameters are its public members. Its declaration lists them as
// data. From it the command line, problem descriptors, JSON, the C interface and the documentation
// are derived. A member is named once, by pointer:
//
//   constexpr Parameter kParameters[] = {  // after the class, which must be complete
//       parameter<Causal, &Causal::offset>("offset", "keys further to the right", kAnyInteger)};
#include <cstdint>
#include <span>
#include <type_traits>

#include "rapt/tensor.h"

namespace rapt {

enum class ParameterType : uint8_t { integer, real, choice, tensor };  // the type of its value

// The value of one parameter, read from a variant or set in it.
struct Argument {
  ParameterType type = ParameterType::integer;
  int64_t integer = 0;  // also the index of a choice
  double real = 0;
  TensorView tensor;
};

struct Range {  // of a number, both ends included
  double min, max;
};
inline constexpr Range kAnyNumber{-1.7976931348623157e308, 1.7976931348623157e308};  // finite
inline constexpr Range kAnyInteger{-9007199254740992.0, 9007199254740992.0};  // +-2^53: exact

// The default of a real parameter that may be omitted; its doc says what an omitted value means. A
// NaN, so compare it with itself: `x == x` is false if x was not given.
inline constexpr double kNotGiven = __builtin_nan("");

struct Parameter {  // of a variant; made by parameter()
  const char* name;
  ParameterType type;
  const char* doc;
  Range range;                           // of integers, reals, and elements of head_parameter()
  std::span<const char* const> choices;  // choice: the words, in the order of the enum
  bool required;                         // false: the default is the member's initialiser
  void (*set)(void* variant, const Argument&);
  Argument (*get)(const void* variant);
  Argument (*initial)();  // the default
  // For a tensor with numbers per head (head_numbers.h), how many of its last dimensions belong to
  // one head; -1 for all others.
  int own_rank = -1;
  // For the same tensors, the number with which the variant changes least: where learning begins.
  double neutral = 0;
  bool written = false;  // a tensor of a method that the call writes
};

struct Declaration {  // of a variant
  const char* name;
  const char* doc;     // one sentence
  const char* source;  // paper or convention it follows
  std::span<const Parameter> parameters;
  // Arguments as in a text, the usual ones first: "30", "position,length=16"; none: the name alone.
  // Tensors are left out, and a number in the place of a tensor means that all its elements are
  // this number. Help and benchmarks use the first, checks draw from all.
  std::span<const char* const> examples = {};
};

template <class... T>
struct TypeList {};  // variants, by their types

// Checks that all integer and real parameters are in range. Throws Error(argument).
void check_parameters(const Declaration& declaration, const void* variant);

namespace detail {
// The declaration of a variant's type, or the object's own declaration if it has one.
template <class Variant>
const Declaration* declaration_of(const Variant& variant) noexcept {
  if constexpr (requires { variant.declaration(); })
    return &variant.declaration();
  else
    return &Variant::kDeclaration;
}

// False if Variant has a check() that is not const. A call sees variants as const objects.
template <class Variant>
inline constexpr bool checked_while_const = !requires(Variant & variant) {
  variant.check();
}
|| requires(const Variant& variant) { variant.check(); };

template <class M>
struct TypeOfMember;
template <class C, class T>
struct TypeOfMember<T C::*> {
  using Type = T;
};
template <class Type>
constexpr ParameterType type_of() {
  return std::is_same_v<Type, TensorView> ? ParameterType::tensor
         : std::is_enum_v<Type>           ? ParameterType::choice
         : std::is_floating_point_v<Type> ? ParameterType::real
                                          : ParameterType::integer;
}
template <class Variant, auto Member>
Argument read(const Variant& variant) {
  const auto& member = variant.*Member;
  Argument a;
  a.type = type_of<std::remove_cvref_t<decltype(member)>>();
  if constexpr (std::is_same_v<decltype(member), const TensorView&>)
    a.tensor = member;
  else if constexpr (std::is_floating_point_v<std::remove_cvref_t<decltype(member)>>)
    a.real = member;
  else
    a.integer = static_cast<int64_t>(member);
  return a;
}
}  // namespace detail

// Declares a member of `Variant` (its own or a base's) as a parameter.
template <class Variant, auto Member>
constexpr Parameter parameter(const char* name, const char* doc, Range range = kAnyNumber,
                              std::span<const char* const> choices = {}, bool required = false) {
  using Type = typename detail::TypeOfMember<decltype(Member)>::Type;
  constexpr ParameterType type = detail::type_of<Type>();
  return {name,
          type,
          doc,
          range,
          choices,
          required,
          [](void* variant, const Argument& a) {
            Type& member = static_cast<Variant*>(variant)->*Member;
            if constexpr (type == ParameterType::tensor)
              member = a.tensor;
            else if constexpr (type == ParameterType::real)
              member = static_cast<Type>(a.real);
            else
              member = static_cast<Type>(a.integer);
          },
          [](const void* variant) {
            return detail::read<Variant, Member>(*static_cast<const Variant*>(variant));
          },
          [] { return detail::read<Variant, Member>(Variant{}); }};
}

// Declares a tensor with numbers per head (head_numbers.h), each within the range.
template <class Variant, auto Member>
constexpr Parameter head_parameter(const char* name, const char* doc, int own_rank,
                                   bool required = false, Range range = kAnyNumber,
                                   double neutral = 0) {
  Parameter p = parameter<Variant, Member>(name, doc, range, {}, required);
  p.own_rank = own_rank;
  p.neutral = neutral;
  return p;
}

// How many written parameters of one method a call may give. A call with more throws
// Error(unsupported).
inline constexpr int kMostWritten = 4;

// Declares a tensor of a method that the call writes (method/method.h), one of at most
// kMostWritten. It is an output of the forward call and of the backward call, whichever of them
// writes it: both check that it is writable, and that its range of addresses has no part of another
// tensor, not even in gaps between rows.
template <class Variant, auto Member>
constexpr Parameter written_parameter(const char* name, const char* doc) {
  Parameter p = parameter<Variant, Member>(name, doc);
  p.written = true;
  return p;
}

}  // namespace rapt
