#pragma once
// The references of methods, which compute attention when it is not computed exactly.
//
// The reference of a method is a struct in a file of methods/, named after the method: mean.h has
// MeanReference. The build lists them. It is made from the arguments of the method and has
//
//   kName               as in the library
//   restated(problem)   the problem that has the results and gradients of the method: an exact one,
//                       or one with features (feature_loops.h)
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>

#include "check/reference/reference.h"
#include "method_references.inc"  // MethodReference: the variant of all, written by the build

namespace check {

namespace detail {
template <class... M>
Problem restated_by(std::string_view method, const VariantArguments& arguments, Problem problem,
                    std::type_identity<std::variant<M...>>) {
  const bool found =
      ((M::kName == method && (problem = M(arguments).restated(std::move(problem)), true)) || ...);
  if (!found) throw std::logic_error("method " + std::string(method) + " has no reference");
  return problem;
}
template <class... M>
bool is_among(std::string_view method, std::type_identity<std::variant<M...>>) {
  return ((M::kName == method) || ...);
}
}  // namespace detail

// Whether a method has a reference here. Others are compared with loops of their own tests.
inline bool has_reference(std::string_view method) {
  return detail::is_among(method, std::type_identity<MethodReference>());
}

// The problem that has the results of `problem` by a method.
inline Problem restated(std::string_view method, const VariantArguments& arguments,
                        Problem problem) {
  return detail::restated_by(method, arguments, std::move(problem),
                             std::type_identity<MethodReference>());
}

}  // namespace check
