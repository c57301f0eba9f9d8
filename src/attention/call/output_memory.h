#pragma once
// Memory that a call writes to: shapes, dtypes, and that nothing overlaps.
#include <cstddef>
#include <span>

#include "attention/call/captures.h"
#include "attention/call/problem.h"

namespace rapt {

// Checks a tensor that is written; returns its addresses. Throws Error(shape, dtype, argument,
// overlap, overflow).
Bytes check_output_tensor(const char* name, const TensorView& view, Shape expected, DType dtype);

// The strides of a view whose shape is [lead, rows, dims], or [lead, rows] for a vector per head.
void take_output_operand(const TensorView& view, bool matrix, Operand& operand);

// What is written, to be told apart from each other and from what is read.
class OutputMemory {
  static constexpr int kMostTensors = 12;  // tensors of a call: kOutputs, kGradients

 public:
  void add(const char* name, Bytes bytes) {
    if (bytes.begin != bytes.end) tenants_[count_++] = {name, bytes};
  }
  void add_workspace(std::span<const std::byte> workspace);

  // Throws Error(overlap).
  void check_apart(const char* name, Bytes read) const;
  void check_apart_from_inputs(const Problem& problem, const AttentionOptions& options) const;
  void check_apart_from_rotary(const Rotary& rotary, const RotaryPositions& positions) const;
  void check_apart_from_each_other() const;

 private:
  struct Tenant {  // of memory
    const char* name;
    Bytes bytes;
  };
  Tenant tenants_[kMostTensors + 1];  // and the workspace
  int count_ = 0;
};

}  // namespace rapt
