#pragma once
// The messages of ONNX that a test of one node needs: a tensor, a model's only node, and the graphs
// that are its attributes.
//
// Field numbers: onnx.proto of ONNX 1.23. Elements of tensors are read from raw_data, float_data
// and int64_data, which are what ONNX's own tests use; the other fields and external data are
// rejected.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rapt/tensor.h"

namespace rapt::conformance {

// Reads a TensorProto. Throws Error(format) for bytes that are none, Error(unsupported) for an
// unsupported dtype or storage.
Tensor read_tensor(std::span<const std::byte> bytes);

// The dtype of a TensorProto.DataType. Throws Error(unsupported) if rapt has none.
DType dtype_of_number(int64_t number);

struct Graph;

// An AttributeProto; one member is set.
struct Attribute {
  float real = 0;
  int64_t integer = 0;
  std::string text;
  std::shared_ptr<const Graph> graph;  // its nodes have no graphs
};

// A NodeProto. Absent inputs and outputs have the name "".
struct Node {
  std::string op_type;
  std::string domain;  // "": ai.onnx
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Attribute> attributes;

  bool has(const std::string& name) const { return attributes.contains(name); }
  int64_t integer(const std::string& name, int64_t otherwise) const;
  double real(const std::string& name, double otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
};

// A GraphProto.
struct Graph {
  std::vector<Node> nodes;                     // in the order of their computation
  std::map<std::string, Tensor> initializers;  // by name
  std::vector<std::string> inputs, outputs;    // their names
};

// The nodes of ModelProto's graph, in order. Throws Error(format), and Error(unsupported) for a
// graph within the graph of an attribute.
std::vector<Node> read_nodes(std::span<const std::byte> model);

}  // namespace rapt::conformance
