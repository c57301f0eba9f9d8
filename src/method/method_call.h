#pragma once
// A checked call in the form that a method computes, and what it returns.
//
// This room, src/method, holds the methods: one per file, or one per folder. In: a MethodCall. Out:
// results in the caller's memory. It may use the checked call, kernel tables, threads, and the
// public functions of the exact engine. src/attention/attention.cpp and attention_backward.cpp call
// it.
#include <cstddef>

#include "attention/call/captures.h"
#include "attention/call/checked_call.h"
#include "attention/call/gradient_request.h"
#include "rapt/method/method.h"

namespace rapt {

// What a method says about a call before it runs.
struct MethodPlan {
  const char* kernel = "";     // the kernel class: "lsh: ..."; static text
  size_t workspace_bytes = 0;  // from `scratch` on, for all threads; the call adds what aligns it
  int threads = 1;             // the most that work on the call, the caller included
  int64_t pairs = 0;           // pairs (query, key) whose scores are computed, at most
};

// Bytes of the caller's workspace, which may begin anywhere: those of the plan, and what the way to
// the first aligned byte takes. Throws Error(overflow).
size_t workspace_bytes_of(const MethodPlan& plan);

// Results of the forward pass; all are checked. Members of `outputs` without data are not wanted.
struct MethodResults {
  const Captures& captures;
  const Outputs& outputs;
};

// A backward call; all is checked. `inputs` are the forward state and the gradients of its results.
struct MethodGradients {
  const WantedGradients& wanted;
  const GradientInputs& inputs;
  const GradientTargets& targets;
  const GradientOutputs& tensors;  // the same as `targets`, each as one tensor
};

// The keys that the queries of a head may attend to.
struct KeyReach {
  int64_t keys;         // the first `keys` keys are valid: k_len, or fewer by the mask lengths
  bool causal = false;  // if so, query i attends to key j where j <= i + offset
  int64_t offset = 0;

  // Query i attends to the keys [0, end(i)).
  int64_t end(int64_t query) const noexcept {
    if (!causal) return keys;
    const int64_t behind = query + offset + 1;
    return behind < 0 ? 0 : behind < keys ? behind : keys;
  }
};

// The matrix [rows, dims] of the head at flat index `head`, in the caller's memory. `rows` is q_len
// or k_len, `dims` head_dim or value_dim. Also for outputs and gradients, so that it is writable.
TensorView matrix_of(const Operand& operand, const Problem& problem, int64_t head, int64_t rows,
                     int64_t dims);
// The same for one number per row: [rows].
TensorView vector_of(const Operand& operand, const Problem& problem, int64_t head, int64_t rows);

class MethodCall {
 public:
  // Checks the options of a call against the scope of its method, and the parameters. Throws Error.
  explicit MethodCall(const CheckedCall& call);
  MethodCall(const MethodCall&) = delete;
  MethodCall& operator=(const MethodCall&) = delete;

  // The caller's tensors, options and context. `checked.problem` has lengths, dtypes and operands.
  const CheckedCall& checked;
  const Problem& problem;
  const Context& context;

  const Method& method() const noexcept { return *checked.options.method; }

  // The matrix of a head, read-only: [q_len, head_dim], [k_len, head_dim], [k_len, value_dim].
  TensorView query(int64_t head) const {
    return input_of(problem.query, head, problem.q_len, problem.head_dim);
  }
  TensorView key(int64_t head) const {
    return input_of(problem.key, head, problem.k_len, problem.head_dim);
  }
  TensorView value(int64_t head) const {
    return input_of(problem.value, head, problem.k_len, problem.value_dim);
  }

  bool causal() const noexcept { return causal_; }
  KeyReach reach(int64_t head) const noexcept;
  // The pairs that the masks allow, in all heads; at most INT64_MAX.
  int64_t allowed_pairs() const noexcept;

 private:
  TensorView input_of(const Operand& operand, int64_t head, int64_t rows, int64_t dims) const {
    TensorView view = matrix_of(operand, problem, head, rows, dims);
    view.read_only = true;
    return view;
  }

  bool causal_ = false;
};

// Throws Error(unsupported) for a requested gradient that the scope of the method does not list.
void check_gradients(const MethodCall& call, const WantedGradients& wanted);
// The same for the gradient of a result.
void check_gradients_of_results(const MethodCall& call, const BackwardInputs& inputs);

}  // namespace rapt
