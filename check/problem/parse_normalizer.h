#pragma once
// The normaliser of a descriptor as rapt::make_normalizer() reads it, with a number in the place of
// a tensor: softmax_with_sink(-3).
#include <string>

#include "check/problem/scanner.h"
#include "check/reference/normalizer.h"
#include "rapt/catalogue.h"

namespace check {

Normalizer parse_normalizer(Scanner& in);
std::string to_string(const Normalizer& normalizer);

// The library's normaliser; its tensors are appended to `owner`.
rapt::MadeNormalizer made(Normalizer normalizer, std::vector<Tensor>& owner);

// The reference of a normaliser, of which a tensor has one number. Throws Error(unsupported) if
// there is none.
Normalizer reference_of(const rapt::NormalizerRef& normalizer);

}  // namespace check
