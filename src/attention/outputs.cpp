// Checks of the memory that a call writes to: shapes, dtypes, and that nothing overlaps.
#include <algorithm>
#include <string>

#include "attention/captures.h"

namespace rapt {
namespace {

struct Bytes {  // [begin, end) of a view's memory; empty: begin == end
  uintptr_t begin = 0, end = 0;
  bool meets(const Bytes& other) const {
    return begin < end && other.begin < other.end && begin < other.end && other.begin < end;
  }
};

Bytes bytes_of(const TensorView& view) {
  if (!view.defined() || view.empty() || !view.data) return {};
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
  if (!view.empty() && !view.data)
    throw Error(ErrorCode::argument,
                described(name, view) + " has elements but a null data pointer");
  check_extent(name, view);
  check_alignment(name, view);
  if (overlaps_itself(view))
    throw Error(ErrorCode::overlap,
                described(name, view) + ": two of its elements may share memory (strides)");
}

struct Tenant {  // of memory
  const char* name;
  Bytes bytes;
};

void check_apart(const Tenant& written, const Tenant& other) {
  if (written.bytes.meets(other.bytes))
    throw Error(ErrorCode::overlap, std::string(written.name) + " overlaps " + other.name +
                                        " in memory; give it memory of its own");
}

}  // namespace

// Sorted by stride, each stride must pass over all that the smaller ones reach.
bool overlaps_itself(const TensorView& view) {
  if (view.empty()) return false;
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

namespace {

// The strides of an output whose shape is [lead, rows, dims], or [lead, rows] for a vector per
// head.
Operand operand_of(const TensorView& view, bool matrix) {
  Operand o;
  o.data = view.data;
  o.dtype = view.dtype;
  o.dim_stride = 1;
  const int lead = view.rank - (matrix ? 2 : 1);
  for (int i = 0; i < lead; ++i) o.lead_strides[i] = view.empty() ? 0 : view.strides[i];
  if (view.empty()) return o;  // strides that no element needs may be anything
  o.row_stride = view.strides[lead];
  if (matrix && view.shape[lead + 1] > 1) o.dim_stride = view.strides[lead + 1];
  return o;
}

}  // namespace

Outputs check_outputs(const Problem& p, const Captures& captures, const TensorView& query,
                      const TensorView& key, const TensorView& value,
                      const AttentionOptions& options, const AttentionOutputs& given,
                      std::span<const std::byte> workspace) {
  if (!given.state.output.defined()) throw Error(ErrorCode::argument, "state.output is missing");
  if (given.state.extra.defined())
    throw Error(ErrorCode::argument,
                "state.extra is given, but this normaliser has no extra output");
  OutputSpec specs[kOutputs];
  describe_outputs(p, captures, given.state.statistic.defined(), specs);

  Outputs outputs;
  Operand* const operands[kOutputs] = {&outputs.output,  &outputs.statistic, &outputs.weights,
                                       &outputs.map,     &outputs.top_keys,  &outputs.top_weights,
                                       &outputs.entropy, &outputs.received};
  const TensorView* views[kOutputs] = {&given.state.output, &given.state.statistic};
  Tenant written[kOutputs + 1];
  for (int i = 0; i < kOutputs; ++i) {
    const OutputSpec& spec = specs[i];
    if (spec.view) views[i] = &(given.*spec.view);
    const TensorView& view = *views[i];
    written[i] = {spec.name, {}};
    if (view.defined() != spec.wanted())
      throw Error(ErrorCode::argument,
                  spec.wanted() ? std::string(spec.name) + " wanted but no memory given for it"
                                : std::string("memory given for ") + spec.name +
                                      " but the options do not ask for it");
    if (!spec.wanted()) continue;
    check_output(spec.name, view, spec.dims(), spec.dtype);
    const bool vector = &spec == &specs[1] || spec.tensor == &AttentionResult::entropy ||
                        spec.tensor == &AttentionResult::received;
    *operands[i] = operand_of(view, !vector);
    if (view.empty() && i > 1) operands[i]->data = nullptr;  // nothing to compute for it
    written[i].bytes = bytes_of(view);
  }
  const auto scratch = reinterpret_cast<uintptr_t>(workspace.data());
  written[kOutputs] = {"workspace", {scratch, scratch + workspace.size()}};

  const Tenant inputs[] = {{"query", bytes_of(query)},
                           {"key", bytes_of(key)},
                           {"value", bytes_of(value)},
                           {"bias", bytes_of(options.bias)},
                           {"packed.query_starts", bytes_of(options.packed.query_starts)},
                           {"packed.key_starts", bytes_of(options.packed.key_starts)}};
  for (const Tenant& w : written) {
    if (w.bytes.begin == w.bytes.end) continue;
    for (const Tenant& input : inputs) check_apart(w, input);
    for (const Tenant* other = written; other != &w; ++other) check_apart(w, *other);
    for_each_mask_tensor(options.masks, [&](const char*, const TensorView& tensor) {
      check_apart(w, {"a mask's tensor", bytes_of(tensor)});
    });
  }
  return outputs;
}

}  // namespace rapt
