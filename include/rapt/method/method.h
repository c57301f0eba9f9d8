#pragma once
// The interface of a method: how a call computes attention when it does not compute it exactly.
//
//   rapt::Lsh lsh;
//   auto result = rapt::scaled_dot_product_attention(query, key, value, {.method = &lsh});
//
// A method is chosen by name and never unasked: without options.method a call is exact. Every form
// of the call (allocating, with the caller's memory, backward, plan()) hands a checked call to the
// method, which returns the results of an exact call: output, statistic, gradients.
//
// A method M derives from Method. Its parameters are public members that `M::kDeclaration` lists
// (rapt/declaration.h). A tensor parameter that the call writes is declared by written_parameter();
// the forward call and the backward call both check it as an output. M::kScope says what the method
// accepts.
//
// A call, in this order:
//
//   1. The call is checked as an exact one is: shapes, dtypes, masks, scores, scale, bias.
//   2. The parameters are checked against their ranges, required tensors must be there, and the
//      options are checked against the scope, in the backward call, too. Whatever the scope does
//      not list is rejected by name, with what is possible.
//   3. check(call): what only the method knows, such as the shape of its tensors.
//   4. plan(call) or plan_backward(call, wanted): bytes of workspace, threads, pairs.
//   5. Outputs are checked: shapes, dtypes, no overlap with inputs, with the method's tensors, with
//      each other. Nothing has been written so far.
//   6. forward(call, results, scratch) or backward(call, gradients, scratch), unless the problem
//      has no head. The backward pass then has zeros in all gradients.
//
// Rules of a method:
//   - forward() and backward() overwrite every element of what they return. They allocate nothing:
//     all memory is `scratch`, MethodPlan::workspace_bytes long, aligned to a cache line. The
//     public functions add to these bytes what the alignment of the caller's workspace takes.
//   - Bits do not depend on the number of threads or the executor.
//   - Context::memory, Precision, AttentionOptions::invariant and BackwardRequest::passes choose
//     kernels and memory; a method for which they make no difference ignores them.
//   - A masked-out NaN never reaches a result; an unmasked one shows in all that sum over it.
//   - A query without a key has output 0, lse -inf and zero gradients.
//   - A method may call the exact engine (the functions of attention.h with the caller's memory) or
//     the kernel tables. Both are in the library; the types behind MethodCall are in
//     src/method/method_call.h. There are no methods of your own in this version.
//   - A task of a method is noexcept. A call of the exact engine within a task has a Context with
//     threads = 1, without executor and progress, whose results do not depend on the caller's. If
//     it has the caller's cancel token, the task catches Error(cancelled) and returns: the run of
//     the tasks finds the token set as well, and throws.
#include <cstddef>
#include <cstdint>
#include <span>

#include "rapt/declaration.h"
#include "rapt/state.h"

namespace rapt {

// Types of the library's inside, which users of a method do not need (src/method/method_call.h).
class MethodCall;
struct MethodPlan;
struct MethodResults;
struct MethodGradients;
struct WantedGradients;

inline constexpr const char* kSoftmaxAlone[] = {"softmax"};  // normalisers of most methods

// What a method accepts beside query, key, value and scale. A call with anything else is rejected.
struct MethodScope {
  // Names of the masks that a call may combine by "and": "causal" and "lengths", or none.
  std::span<const char* const> masks = {};
  std::span<const char* const> scores = {};                  // names of score functions
  std::span<const char* const> normalizers = kSoftmaxAlone;  // their names
  // The meaning of the number per row (Plan::statistic). With `none` the method writes 0, and the
  // backward pass accepts no gradient of it. merge() is correct for an lse alone.
  Statistic statistic = Statistic::lse;
  bool f32 = true;                    // query, key and value of this dtype
  bool f64 = true;                    // the same for f64
  bool bf16 = true;                   // the same for bf16
  bool f16 = true;                    // the same for f16
  bool shared_keys = true;            // heads of the query may share a key: groups, broadcast
  bool shared_values = true;          // heads of the query may share a value
  bool bias = false;                  // options.bias
  bool dropout = false;               // dropout of weights
  bool packed = false;                // several sequences in one tensor
  bool cache = false;                 // keys and values of a cache
  bool row_transforms = false;        // cosine and rotary
  bool relative = false;              // relative positions
  bool weights = false;               // returned weights and scores
  bool map = false;                   // a pooled map of weights
  bool top_k = false;                 // the keys of the largest scores
  bool entropy = false;               // the entropy of a row
  bool received = false;              // the attention that each key receives
  bool d_scale = false;               // the gradient of the scale
  bool d_bias = false;                // the gradient of the bias
  bool d_score_parameters = false;    // gradients of the learned parameters of scores
  bool d_relative = false;            // gradients of relative positions
  bool d_statistic = false;           // the backward pass accepts the gradient of the statistic
  bool d_weights = false;             // the same for the gradient of returned weights
  bool shifted_causal = true;         // causal masks with an offset or another anchor
  bool causal_lengths_differ = true;  // q_len and k_len may differ under a causal mask
};

// The base of all methods. One object serves any number of calls at once if it gives no tensor that
// the call writes: such tensors belong to one call at a time.
class Method {
 public:
  virtual ~Method() = default;

  virtual const Declaration& declaration() const noexcept = 0;
  virtual const MethodScope& scope() const noexcept = 0;

  // Checks the parameters against the call. Tensors have their shapes and dtypes checked here, and
  // nowhere else; data pointers may be null, because plan() reads no element. Parameter::range does
  // not apply to the elements of a method's tensors: forward() and backward() must be correct, or
  // at least in bounds, for any elements, or reject them before they write. Throws Error(argument,
  // shape, dtype).
  virtual void check(const MethodCall& call) const = 0;

  // What forward() needs. Throws Error(overflow).
  virtual MethodPlan plan(const MethodCall& call) const = 0;
  // Throws Error(cancelled), and Error(argument) for elements of its tensors that it rejects.
  virtual void forward(const MethodCall& call, const MethodResults& results,
                       std::byte* scratch) const = 0;

  // What backward() needs. Throws Error(overflow), and Error(unsupported) for a gradient that the
  // method does not have with its parameters.
  virtual MethodPlan plan_backward(const MethodCall& call, const WantedGradients& wanted) const = 0;
  // Throws Error(cancelled).
  virtual void backward(const MethodCall& call, const MethodGradients& gradients,
                        std::byte* scratch) const = 0;
};

}  // namespace rapt
