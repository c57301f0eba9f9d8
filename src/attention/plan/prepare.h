#pragma once
// What every pass over a call prepares first: its kernels and its threads. The forward pass,
// plan(), the backward pass and tangents all begin here. Each of them then cuts the call and lays
// out its workspace by itself.
#include "attention/call/checked_call.h"
#include "attention/plan/variant_kernels.h"
#include "threads/workers.h"

namespace rapt {

enum class PassKind : uint8_t { forward, backward, tangents };

// The hooks that a pass requires of the variants of a call, and its work.
struct PassNeeds {
  PassKind kind;
  double products;                     // work relative to the two products of the forward pass
  bool normalizer_parameters = false;  // gradients of the normaliser's learned parameters
};

template <class E>
struct PreparedCall {
  Kernels<E> kernels;
  Workers workers;

  // Throws Error(unsupported, argument) if a variant of the call lacks what the pass needs.
  PreparedCall(const CheckedCall& call, const PassNeeds& needs);
};

// Calls visit(E()) with the type in which the call is computed.
template <class Visit>
auto with_element_type(const CheckedCall& call, const Visit& visit) {
  if (call.problem.result_dtype == DType::f64) return visit(double());
  return visit(float());
}

}  // namespace rapt
