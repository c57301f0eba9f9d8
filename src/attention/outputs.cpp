// Checks of the memory that a call writes to: shapes, dtypes, and that nothing overlaps.
#include <algorithm>
#include <string>

#include "attention/problem.h"

namespace rapt {
namespace {

struct Bytes {  // [begin, end) of a view's memory; empty: begin == end
  uintptr_t begin = 0, end = 0;
  bool meets(const Bytes& other) const {
    return begin < end && other.begin < other.end && begin < other.end && other.begin < end;
  }
};

Bytes bytes_of(const TensorView& view) {
  if (!view.defined() || view.count() == 0 || !view.data) return {};
  const int64_t size = size_of(view.dtype);
  int64_t low = 0, high = 0;
  for (int i = 0; i < view.rank; ++i) {
    const int64_t reach = (view.shape[i] - 1) * view.strides[i] * size;
    (reach < 0 ? low : high) += reach;
  }
  const auto at = reinterpret_cast<uintptr_t>(view.data);
  return {at + static_cast<uintptr_t>(low), at + static_cast<uintptr_t>(high + size)};
}

// Built for a message only: a call with the caller's memory allocates nothing.
std::string described(const char* name, const TensorView& view) {
  return std::string(name) + " " + to_string(view.dims());
}

void check_output(const char* name, const TensorView& view, Shape expected, DType dtype) {
  if (!std::equal(expected.begin(), expected.end(), view.dims().begin(), view.dims().end()))
    throw Error(ErrorCode::shape, described(name, view) + "; expected " + to_string(expected));
  if (view.dtype != dtype)
    throw Error(ErrorCode::dtype, described(name, view) + " is " + name_of(view.dtype) +
                                      "; expected " + name_of(dtype));
  if (view.read_only) throw Error(ErrorCode::argument, described(name, view) + " is read-only");
  if (view.count() > 0 && !view.data)
    throw Error(ErrorCode::argument,
                described(name, view) + " has elements but a null data pointer");
  check_extent(name, view);
  check_alignment(name, view);
  if (overlaps_itself(view))
    throw Error(ErrorCode::overlap,
                described(name, view) + ": two of its elements may share memory (strides)");
}

struct Written {
  const char* name;
  Bytes bytes;
};

void check_apart(const Written& written, const char* input, const TensorView& view) {
  if (written.bytes.meets(bytes_of(view)))
    throw Error(ErrorCode::overlap, std::string(written.name) + " overlaps " + input +
                                        " in memory; give it memory of its own");
}

}  // namespace

// Sorted by stride, each stride must pass over all that the smaller ones reach.
bool overlaps_itself(const TensorView& view) {
  if (view.count() == 0) return false;
  int order[kMaxRank], rank = 0;
  for (int i = 0; i < view.rank; ++i)
    if (view.shape[i] > 1) order[rank++] = i;
  const auto stride = [&](int i) {
    return view.strides[i] < 0 ? -view.strides[i] : view.strides[i];
  };
  std::sort(order, order + rank, [&](int a, int b) { return stride(a) < stride(b); });
  int64_t reach = 0;
  for (int i = 0; i < rank; ++i) {
    if (stride(order[i]) <= reach) return true;
    reach += (view.shape[order[i]] - 1) * stride(order[i]);
  }
  return false;
}

bool overlap(const TensorView& a, const TensorView& b) { return bytes_of(a).meets(bytes_of(b)); }

Outputs check_outputs(const Problem& p, const TensorView& query, const TensorView& key,
                      const TensorView& value, const AttentionOptions& options,
                      const AttentionOutputs& given, std::span<const std::byte> workspace) {
  const AttentionState& state = given.state;
  const TensorView& weights = given.weights;
  Outputs outputs;
  int64_t shape[kMaxRank + 2];
  const int lead = p.leading_rank;
  for (int i = 0; i < lead; ++i) shape[i] = p.leading[i];
  shape[lead] = p.q_len;
  shape[lead + 1] = p.value_dim;
  const auto prefix = [&](int rank) { return Shape(shape, static_cast<size_t>(rank)); };

  if (!state.output.defined()) throw Error(ErrorCode::argument, "state.output is missing");
  check_output("output", state.output, prefix(lead + 2), p.dtype);
  outputs.output.data = state.output.data;
  for (int i = 0; i < lead; ++i) outputs.output.lead_strides[i] = state.output.strides[i];
  outputs.output.row_stride = state.output.strides[lead];
  outputs.output.dim_stride = p.value_dim > 1 ? state.output.strides[lead + 1] : 1;
  if (state.output.count() == 0) outputs.output = Operand{state.output.data, {}, 1, 0, 1};

  if (state.statistic.defined()) {
    check_output("statistic", state.statistic, prefix(lead + 1), p.dtype);
    outputs.statistic.data = state.statistic.data;
    for (int i = 0; i < lead; ++i) outputs.statistic.lead_strides[i] = state.statistic.strides[i];
    outputs.statistic.row_stride = state.statistic.strides[lead];
  }
  if (state.extra.defined())
    throw Error(ErrorCode::argument,
                "state.extra is given, but this normaliser has no extra output");

  if (weights.defined() != options.weights.has_value())
    throw Error(ErrorCode::argument, options.weights
                                         ? "weights are wanted but no memory for them is given"
                                         : "memory for weights is given but options.weights "
                                           "is not set");
  if (weights.defined()) {
    const int rank = weights_shape(p, *options.weights, shape);
    check_output("weights", weights, prefix(rank), p.dtype);
    // Null where there is nothing to write: these rows then cost no second pass.
    outputs.weights.data = weights.count() > 0 ? weights.data : nullptr;
    for (int i = 0; i < rank - 2; ++i) outputs.weights.lead_strides[i] = weights.strides[i];
    outputs.weights.row_stride = weights.strides[rank - 2];
    outputs.weights.dim_stride = weights.strides[rank - 1];
  }

  const auto scratch = reinterpret_cast<uintptr_t>(workspace.data());
  const Written all[] = {{"output", bytes_of(state.output)},
                         {"statistic", bytes_of(state.statistic)},
                         {"weights", bytes_of(weights)},
                         {"workspace", {scratch, scratch + workspace.size()}}};
  for (const Written& written : all) {
    check_apart(written, "query", query);
    check_apart(written, "key", key);
    check_apart(written, "value", value);
    check_apart(written, "bias", options.bias);
    for (const Mask* mask : options.masks)
      for (const Parameter& parameter : mask->declaration().parameters)
        if (parameter.type == ParameterType::tensor)
          check_apart(written, "a mask's tensor",
                      parameter.get(dynamic_cast<const void*>(mask)).tensor);
    for (const Written* other = all; other != &written; ++other)
      if (written.bytes.meets(other->bytes))
        throw Error(ErrorCode::overlap, std::string(written.name) + " overlaps " + other->name +
                                            " in memory; give it memory of its own");
  }
  return outputs;
}

}  // namespace rapt
