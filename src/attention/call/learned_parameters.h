#pragma once
// The learned parameters of scores and normalisers: the real parameters that the caller sets, and
// all elements of tensors with parameters per head (rapt/head_numbers.h). Their order is that of
// the declaration; tensors are row-major.
#include "attention/call/problem.h"

namespace rapt {

// A score or a normaliser of a call.
struct Variant {
  const char* kind;  // for messages
  const Declaration* declaration;
  const void* object;

  Variant(const ScoreRef& score)
      : kind("score"), declaration(score.declaration), object(score.object) {}
  Variant(const NormalizerRef& normalizer)
      : kind("normalizer"), declaration(normalizer.declaration), object(normalizer.object) {}
};

// The number of learned parameters of all heads, and of those that one head uses.
int64_t count_parameters_of(const Variant& variant);
int64_t head_parameters_of(const Variant& variant);

// The index, among all learned parameters, of the `nth` one that the head at `index` (leading
// dimensions) uses.
int64_t place_of_parameter(const Variant& variant, const Problem& problem, const int64_t* index,
                           int64_t nth);

// Calls visit(name, tensor) for every tensor among the parameters of a variant.
template <class Visit>
void for_each_tensor_of(const Variant& variant, const Visit& visit) {
  for (const Parameter& parameter : variant.declaration->parameters)
    if (parameter.type == ParameterType::tensor)
      visit(parameter.name, parameter.get(variant.object).tensor);
}

// The same for all scores and the normaliser.
template <class Visit>
void for_each_variant_tensor(const AttentionOptions& options, const Visit& visit) {
  for (const ScoreRef& score : options.scores) for_each_tensor_of(score, visit);
  for_each_tensor_of(options.normalizer, visit);
}

// Checks that the tensors fit the heads and that their elements are in range. Throws
// Error(argument, shape, dtype, overflow).
void check_variant_tensors(const Variant& variant, const Problem& problem);

}  // namespace rapt
