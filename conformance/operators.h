#pragma once
// The operators of ONNX that rapt has, each by rapt's public interface.
#include <optional>
#include <string>
#include <vector>

#include "node_test.h"

namespace rapt::conformance {

// One tensor per output of the node; undefined if the output is absent. Each function throws
// Error(unsupported) for an unknown attribute, and the errors of rapt.
using Outputs = std::vector<Tensor>;
Outputs run_attention(const NodeTest& test);         // Attention 23, 24
Outputs run_softmax(const NodeTest& test);           // Softmax 13, LogSoftmax 13
Outputs run_tensor_scatter(const NodeTest& test);    // TensorScatter 24
Outputs run_rotary_embedding(const NodeTest& test);  // RotaryEmbedding 23
Outputs run_flex_attention(const NodeTest& test);    // FlexAttention 1 of ai.onnx.preview

struct Operator {
  const char* op_type;
  Outputs (*run)(const NodeTest&);  // null: not run
  const char* reason;               // why not
};
// In the order in which scores are printed.
inline constexpr Operator kOperators[] = {
    {"Attention", run_attention, nullptr},
    {"Softmax", run_softmax, nullptr},
    {"LogSoftmax", run_softmax, nullptr},
    {"TensorScatter", run_tensor_scatter, nullptr},
    {"RotaryEmbedding", run_rotary_embedding, nullptr},
    {"FlexAttention", run_flex_attention, nullptr},
    {"LinearAttention", nullptr,
     "its keys have no feature map, and its states decay or are corrected"},
};

// Throws Error(unsupported) if the node has an attribute that is not among `known`.
void require_known(const Node& node, std::initializer_list<const char*> known);

}  // namespace rapt::conformance
