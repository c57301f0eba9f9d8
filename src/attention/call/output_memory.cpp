// Checks of output tensors and their memory.
#include "attention/call/output_memory.h"

#include <algorithm>
#include <string>

#include "attention/call/learned_parameters.h"
#include "base/check_argument.h"
#include "base/rare.h"

namespace rapt {
namespace {

[[noreturn]] void fail_overlap(const char* memory, const char* other) {
  throw Error(ErrorCode::overlap,
              std::string(memory) + " overlaps " + other + " in memory; give it memory of its own",
              memory);
}

}  // namespace

void take_output_operand(const TensorView& view, bool matrix, Operand& o) {
  o.data = view.data;
  o.dtype = view.dtype;
  o.heads_per_group = 1;
  o.row_stride = 0;
  o.dim_stride = 1;
  const int lead = view.rank - (matrix ? 2 : 1);
  for (int i = 0; i < lead; ++i) o.lead_strides[i] = view.empty() ? 0 : view.strides[i];
  if (view.empty()) return;  // strides of an empty view are not used
  if (view.shape[lead] > 1) o.row_stride = view.strides[lead];
  if (matrix && view.shape[lead + 1] > 1) o.dim_stride = view.strides[lead + 1];
}

void OutputMemory::add_result(const ResultShape& result, const TensorView& view,
                              const char* asker) {
  if (view.defined() != result.wanted)
    throw Error(ErrorCode::argument,
                result.wanted ? std::string(result.name) + " wanted but no memory given for it"
                              : std::string("memory given for ") + result.name + " but " + asker +
                                    " not ask for it",
                result.name);
  if (result.wanted)
    add(result.name, view, check_output_tensor(result.name, view, result.dims(), result.dtype));
}

void OutputMemory::add_written(const Method* method) {
  int written = 0;
  for_each_method_tensor(method, [&](const Parameter& parameter, const TensorView& tensor) {
    if (!parameter.written) return;
    if (++written > kMostWritten)
      fail(ErrorCode::unsupported, "method",
           std::string("method ") + method->declaration().name + " writes more than " +
               std::to_string(kMostWritten) + " tensors; leave some out");
    // `tensor` dies with this visit, so that no view is kept.
    const Bytes bytes = check_output_tensor(parameter.name, tensor, tensor.dims(), tensor.dtype);
    if (bytes.begin != bytes.end) take(parameter.name, nullptr, bytes);
  });
}

void OutputMemory::add_workspace(std::span<const std::byte> workspace) {
  const auto scratch = reinterpret_cast<uintptr_t>(workspace.data());
  if (!workspace.empty()) take("workspace", nullptr, {scratch, scratch + workspace.size()});
}

void OutputMemory::check_apart(const char* name, Bytes read) const {
  for (int i = 0; i < count_; ++i)
    if (tenants_[i].bytes().meets(read)) fail_overlap(tenants_[i].name, name);
}

void OutputMemory::check_apart_from_inputs(const CheckedCall& call) const {
  const Problem& p = call.problem;
  const AttentionOptions& options = call.options;
  check_apart("query", p.query_bytes);
  check_apart("key", p.key_bytes);
  check_apart("value", p.value_bytes);
  if (rare(p.has_bias)) check_apart("bias", p.bias_bytes);
  if (rare(options.packed.defined())) {
    check_apart("packed.query_starts",
                extent_of("packed.query_starts", options.packed.query_starts));
    check_apart("packed.key_starts", extent_of("packed.key_starts", options.packed.key_starts));
  }
  if (rare(options.cache.defined())) {
    const CachedKeys& cache = options.cache;
    check_apart("cache.lengths", extent_of("cache.lengths", cache.lengths));
    check_apart("cache.block_table", extent_of("cache.block_table", cache.block_table));
    check_apart("cache.starts", extent_of("cache.starts", cache.starts));
  }
  for_each_mask_tensor(options.masks, [&](const char* name, const TensorView& tensor) {
    check_apart("a mask's tensor", extent_of(name, tensor));
  });
  for_each_variant_tensor(options, [&](const char* name, const TensorView& tensor) {
    check_apart("a tensor of a score or normaliser", extent_of(name, tensor));
  });
  if (p.relative.any())
    for_each_relative_tensor(options.relative, [&](const char* name, const TensorView& tensor) {
      check_apart(name, extent_of(name, tensor));
    });
  for_each_method_tensor(options.method, [&](const Parameter& parameter, const TensorView& tensor) {
    if (!parameter.written) check_apart(parameter.name, extent_of(parameter.name, tensor));
  });
  if (const Rotary* rotary = options.rotary.embedding; rare(rotary != nullptr)) {
    check_apart_from_rotary(*rotary, options.rotary.query);
    check_apart_from_rotary(*rotary, options.rotary.key);
  }
}

void OutputMemory::check_apart_from_rotary(const Rotary& rotary,
                                           const RotaryPositions& positions) const {
  check_apart("the positions of rows", extent_of("positions", positions.values));
  check_apart("cos_cache", extent_of("cos_cache", rotary.cos_cache));
  check_apart("sin_cache", extent_of("sin_cache", rotary.sin_cache));
}

void OutputMemory::check_apart_from_each_other() const {
  for (int i = 0; i < count_; ++i)
    for (int j = 0; j < i; ++j)
      if (const Tenant& a = tenants_[i], &b = tenants_[j];
          a.bytes().meets(b.bytes()) && !(a.view && b.view && take_turns(*a.view, *b.view)))
        fail_overlap(a.name, b.name);
}

}  // namespace rapt
