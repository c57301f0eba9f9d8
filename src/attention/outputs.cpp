// Checks of the memory that a call writes to: shapes, dtypes, and that nothing overlaps.
#include <algorithm>
#include <string>

#include "attention/captures.h"

namespace rapt {
namespace {

// Built for a message only: a call with the caller's memory allocates nothing.
std::string described(const char* name, const TensorView& view) {
  return std::string(name) + " " + to_string(view.dims());
}

// Returns the addresses that are written.
Bytes check_output(const char* name, const TensorView& view, Shape expected, DType dtype) {
  bool fits = view.rank == static_cast<int>(expected.size());
  for (int i = 0; fits && i < view.rank; ++i)
    fits = view.shape[i] == expected[static_cast<size_t>(i)];
  if (!fits)
    throw Error(ErrorCode::shape, described(name, view) + "; expected " + to_string(expected));
  if (view.dtype != dtype)
    throw Error(ErrorCode::dtype, described(name, view) + " is " + name_of(view.dtype) +
                                      "; expected " + name_of(dtype));
  if (view.read_only) throw Error(ErrorCode::argument, described(name, view) + " is read-only");
  if (!view.empty() && !view.data)
    throw Error(ErrorCode::argument,
                described(name, view) + " has elements but a null data pointer");
  const Bytes bytes = extent_of(name, view);
  check_alignment(name, view);
  if (!view.contiguous() && overlaps_itself(view))
    throw Error(ErrorCode::overlap,
                described(name, view) + ": two of its elements may share memory (strides)");
  return bytes;
}

struct Tenant {  // of memory
  const char* name;
  Bytes bytes;
};

[[noreturn]] void fail_overlap(const char* written, const char* other) {
  throw Error(ErrorCode::overlap, std::string(written) + " overlaps " + other +
                                      " in memory; give it memory of its own");
}

inline void check_apart(const Tenant& written, const Tenant& other) {
  if (written.bytes.meets(other.bytes)) fail_overlap(written.name, other.name);
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

bool overlap(const TensorView& a, const TensorView& b) {
  return extent_of("tensor", a).meets(extent_of("tensor", b));
}

namespace {

// The strides of an output whose shape is [lead, rows, dims], or [lead, rows] for a vector per
// head.
void take_operand(const TensorView& view, bool matrix, Operand& o) {
  o.data = view.data;
  o.dtype = view.dtype;
  o.heads_per_group = 1;
  o.row_stride = 0;
  o.dim_stride = 1;
  const int lead = view.rank - (matrix ? 2 : 1);
  for (int i = 0; i < lead; ++i) o.lead_strides[i] = view.empty() ? 0 : view.strides[i];
  if (view.empty()) return;  // strides that no element needs may be anything
  if (view.shape[lead] > 1) o.row_stride = view.strides[lead];
  if (matrix && view.shape[lead + 1] > 1) o.dim_stride = view.strides[lead + 1];
}

}  // namespace

namespace {

// What is written, to be told apart from each other and from what is read.
class Tenants {
 public:
  void add(const char* name, Bytes bytes) {
    if (bytes.begin != bytes.end) tenants_[count_++] = {name, bytes};
  }
  const Tenant* begin() const { return tenants_; }
  const Tenant* end() const { return tenants_ + count_; }

 private:
  Tenant tenants_[kOutputs + 1];
  int count_ = 0;
};

void check_apart(const Tenants& written, const char* name, Bytes read) {
  for (const Tenant& w : written) check_apart(w, {name, read});
}

// Everything but output and statistic.
void check_captures(const Problem& p, const Captures& captures, const AttentionOutputs& given,
                    Outputs& outputs, Tenants& written) {
  OutputSpec specs[kOutputs];
  describe_outputs(p, captures, true, specs);
  Operand* const operands[kOutputs] = {nullptr,          nullptr,           &outputs.weights,
                                       &outputs.map,     &outputs.top_keys, &outputs.top_weights,
                                       &outputs.entropy, &outputs.received};
  for (int i = 2; i < kOutputs; ++i) {
    const OutputSpec& spec = specs[i];
    const TensorView& view = given.*spec.view;
    if (view.defined() != spec.wanted())
      throw Error(ErrorCode::argument,
                  spec.wanted() ? std::string(spec.name) + " wanted but no memory given for it"
                                : std::string("memory given for ") + spec.name +
                                      " but the options do not ask for it");
    if (!spec.wanted()) continue;
    written.add(spec.name, check_output(spec.name, view, spec.dims(), spec.dtype));
    const bool vector =
        spec.tensor == &AttentionResult::entropy || spec.tensor == &AttentionResult::received;
    take_operand(view, !vector, *operands[i]);
    if (view.empty()) operands[i]->data = nullptr;  // nothing to compute for it
  }
}

}  // namespace

Outputs check_outputs(const Problem& p, const Captures& captures, const AttentionOptions& options,
                      const AttentionOutputs& given, std::span<const std::byte> workspace) {
  const AttentionState& state = given.state;
  if (!state.output.defined()) throw Error(ErrorCode::argument, "state.output is missing");
  if (state.extra.defined())
    throw Error(ErrorCode::argument,
                "state.extra is given, but this normaliser has no extra output");
  int64_t shape[kMaxRank + 2];
  std::copy_n(p.leading, p.leading_rank, shape);
  shape[p.leading_rank] = p.q_len;
  shape[p.leading_rank + 1] = p.value_dim;
  const auto prefix = [&](int rank) { return Shape(shape, static_cast<size_t>(rank)); };

  Outputs outputs;
  Tenants written;
  written.add("output",
              check_output("output", state.output, prefix(p.leading_rank + 2), p.output_dtype));
  take_operand(state.output, true, outputs.output);
  if (state.statistic.defined()) {
    written.add("statistic", check_output("statistic", state.statistic, prefix(p.leading_rank + 1),
                                          p.result_dtype));
    take_operand(state.statistic, false, outputs.statistic);
  }
  if (captures.any() || given.weights.defined() || given.map.defined() ||
      given.top_keys.defined() || given.top_weights.defined() || given.entropy.defined() ||
      given.received.defined())
    check_captures(p, captures, given, outputs, written);
  const auto scratch = reinterpret_cast<uintptr_t>(workspace.data());
  written.add("workspace", {scratch, scratch + workspace.size()});

  check_apart(written, "query", p.query_bytes);
  check_apart(written, "key", p.key_bytes);
  check_apart(written, "value", p.value_bytes);
  if (p.has_bias) check_apart(written, "bias", p.bias_bytes);
  if (options.packed.defined()) {
    check_apart(written, "packed.query_starts",
                extent_of("packed.query_starts", options.packed.query_starts));
    check_apart(written, "packed.key_starts",
                extent_of("packed.key_starts", options.packed.key_starts));
  }
  for_each_mask_tensor(options.masks, [&](const char* name, const TensorView& tensor) {
    check_apart(written, "a mask's tensor", extent_of(name, tensor));
  });
  for (const Tenant& w : written)
    for (const Tenant* other = written.begin(); other != &w; ++other) check_apart(w, *other);
  return outputs;
}

}  // namespace rapt
