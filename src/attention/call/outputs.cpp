// Checks of the outputs of a forward call.
#include <algorithm>

#include "attention/call/captures.h"
#include "attention/call/output_memory.h"
#include "base/rare.h"

namespace rapt {
namespace {

// All outputs except output and statistic.
void check_captures(const Problem& p, const Captures& captures, const AttentionOutputs& given,
                    Outputs& outputs, OutputMemory& memory) {
  OutputSpec specs[kOutputs];
  describe_outputs(p, captures, true, specs);
  Operand* const operands[kOutputs] = {nullptr,          nullptr,           &outputs.weights,
                                       &outputs.map,     &outputs.top_keys, &outputs.top_weights,
                                       &outputs.entropy, &outputs.received};
  for (int i = 2; i < kOutputs; ++i) {
    const OutputSpec& spec = specs[i];
    const TensorView& view = given.*spec.view;
    memory.add_result(spec, view, "the options do");
    if (!spec.wanted) continue;
    const bool vector =
        spec.tensor == &AttentionResult::entropy || spec.tensor == &AttentionResult::received;
    take_output_operand(view, !vector, *operands[i]);
    if (view.empty()) operands[i]->data = nullptr;  // nothing to compute
  }
}

}  // namespace

Outputs check_outputs(const CheckedCall& call, const Captures& captures,
                      const AttentionOutputs& given, std::span<const std::byte> workspace) {
  const Problem& p = call.problem;
  const AttentionState& state = given.state;
  if (!state.output.defined())
    throw Error(ErrorCode::argument, "state.output is missing", "output");
  int64_t shape[kMaxRank + 2];
  std::copy_n(p.leading, p.leading_rank, shape);
  shape[p.leading_rank] = p.q_len;
  shape[p.leading_rank + 1] = p.value_dim;
  const auto prefix = [&](int rank) { return Shape(shape, static_cast<size_t>(rank)); };

  Outputs outputs;
  OutputMemory memory;
  memory.add(
      "output", state.output,
      check_output_tensor("output", state.output, prefix(p.leading_rank + 2), p.output_dtype));
  take_output_operand(state.output, true, outputs.output);
  if (state.statistic.defined()) {
    memory.add("statistic", state.statistic,
               check_output_tensor("statistic", state.statistic, prefix(p.leading_rank + 1),
                                   p.result_dtype));
    take_output_operand(state.statistic, false, outputs.statistic);
  }
  if (rare(captures.any() || given.weights.defined() || given.map.defined() ||
           given.top_keys.defined() || given.top_weights.defined() || given.entropy.defined() ||
           given.received.defined()))
    check_captures(p, captures, given, outputs, memory);
  memory.add_written(call.options.method);
  memory.add_workspace(workspace);
  memory.check_apart_from_inputs(call);
  memory.check_apart_from_each_other();
  return outputs;
}

}  // namespace rapt
