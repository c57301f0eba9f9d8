#pragma once
// Checks of the memory that a call writes to: shapes, dtypes, and that no two tensors overlap.
#include <cstddef>
#include <span>

#include "attention/call/captures.h"
#include "attention/call/checked_call.h"

namespace rapt {

// Sets `operand` to a view of shape [lead, rows, dims] or, for a vector per head, [lead, rows].
void take_output_operand(const TensorView& view, bool matrix, Operand& operand);

// The memory of all outputs, checked for overlap with each other and with the inputs. Outputs may
// be columns of one matrix.
class OutputMemory {
  // Tensors of a call (kOutputs, kGradients), and those that a method writes.
  static constexpr int kMostTensors = 12 + kMostWritten;

 public:
  // `view` must outlive the checks.
  void add(const char* name, const TensorView& view, Bytes bytes) {
    if (bytes.begin != bytes.end) take(name, &view, bytes);
  }
  // The same for the caller's view of a result, after checking it: absent if the result is not
  // wanted, else of its dtype and shape. `asker` is named if it did not ask for the result. Throws
  // Error(argument, shape, dtype, overlap, overflow).
  void add_result(const ResultShape& result, const TensorView& view, const char* asker);
  // The tensors that a method writes. Throws as add_result(), and Error(unsupported) for more than
  // kMostWritten.
  void add_written(const Method* method);
  void add_workspace(std::span<const std::byte> workspace);

  // Throws Error(overlap).
  void check_apart(const char* name, Bytes read) const;
  void check_apart_from_inputs(const CheckedCall& call) const;
  void check_apart_from_rotary(const Rotary& rotary, const RotaryPositions& positions) const;
  void check_apart_from_each_other() const;

 private:
  struct Tenant {  // of memory; the addresses are those of Bytes
    // Addresses are no neighbours: they would be stored as a vector, which waits for two stores.
    const char* name;
    uintptr_t begin;
    const TensorView* view;  // null: the workspace, or a tensor that a method writes
    uintptr_t end;

    Bytes bytes() const noexcept { return {begin, end}; }
  };
  void take(const char* name, const TensorView* view, Bytes bytes) noexcept {
    Tenant& tenant = tenants_[count_++];
    tenant.name = name, tenant.view = view;
    tenant.begin = bytes.begin, tenant.end = bytes.end;
  }

  Tenant tenants_[kMostTensors + 1];  // and the workspace; only the first count_ are initialised
  int count_ = 0;
};

}  // namespace rapt
