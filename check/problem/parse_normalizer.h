#pragma once
// Reads the normaliser of a descriptor: `name` or `name(a, b=1)`, and writes it, as
// rapt::make_normalizer() reads it, too.
#include <string>

#include "check/problem/scanner.h"
#include "check/reference/reference_normalizer.h"

namespace check {

Normalizer parse_normalizer(Scanner& in);
std::string to_string(const Normalizer& normalizer);

}  // namespace check
