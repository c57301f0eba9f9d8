#pragma once
// A test of ONNX's backend suite: one node, its inputs and the outputs that it must have.
//
// Layout of a test's folder: model.onnx; test_data_set_0/input_<k>.pb and output_<k>.pb, the k-th
// PRESENT input or output of the node. Pass rule: onnx/backend/test/runner/__init__.py.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "archive.h"
#include "onnx_messages.h"

namespace rapt::conformance {

struct NodeTest {
  std::string name;  // of the folder
  Node node;
  std::vector<Tensor> inputs;   // one per input of the node; undefined where it is absent
  std::vector<Tensor> outputs;  // one per output of the node

  // Input `i`, undefined where it is absent or beyond the last.
  TensorView input(size_t i) const { return i < inputs.size() ? inputs[i].view() : TensorView(); }
  bool wants(size_t i) const { return i < outputs.size() && outputs[i].defined(); }
};

// The tests in an archive that consist of one node of the operator itself. Folders with "_expanded"
// in their name hold the same problem as a graph of primitive operators, which tests a graph's
// runtime; they are left out. Throws Error(format, unsupported).
std::vector<NodeTest> read_node_tests(const std::map<std::string, Bytes>& files);

// Checks the suite's rule: same dtype and shape, and |got - wanted| <= 1e-7 + 1e-3 |wanted| for
// every element; NaN equals NaN, and an infinity itself. Returns the first violation.
std::optional<std::string> difference(const TensorView& got, const TensorView& wanted);

}  // namespace rapt::conformance
