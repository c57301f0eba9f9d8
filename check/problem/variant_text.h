#pragma once
// Masks, scores and normalisers of a descriptor, whose text the library reads.
#include <span>
#include <string>

#include "check/problem/scanner.h"
#include "check/spec/variant_arguments.h"
#include "rapt/declaration.h"

namespace check {

// Reads a name. `kind`, "a score", is for the message if no declaration has it.
inline const rapt::Declaration& read_name(Scanner& in, const std::string& kind,
                                          std::span<const rapt::Declaration* const> declarations) {
  const size_t begin = in.position();
  const std::string_view name = in.word();
  std::string known;
  for (const rapt::Declaration* declaration : declarations) {
    if (declaration->name == name) return *declaration;
    known += (known.empty() ? "" : ", ") + std::string(declaration->name);
  }
  in.go_back_to(begin);
  in.fail("expected " + kind + ": " + known);
}

// make(). If the library throws an Error, fails with its message at the column of the arguments.
template <class Make>
auto made_at(Scanner& in, size_t column, const Make& make) {
  try {
    return make();
  } catch (const rapt::Error& error) {
    in.go_back_to(column);
    in.reject(error.what());
  }
}

// The integers and choices of a variant of the library.
inline VariantArguments arguments_of(const rapt::Declaration& declaration, const void* variant) {
  VariantArguments arguments;
  for (const rapt::Parameter& p : declaration.parameters) {
    const rapt::Argument value = p.get(variant);
    if (p.type == rapt::ParameterType::integer) arguments.integers[p.name] = value.integer;
    if (p.type == rapt::ParameterType::real) arguments.reals[p.name] = value.real;
    if (p.type == rapt::ParameterType::choice)
      arguments.words[p.name] = p.choices[static_cast<size_t>(value.integer)];
  }
  return arguments;
}

}  // namespace check
