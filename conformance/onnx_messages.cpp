// Reads TensorProto, ModelProto, GraphProto, NodeProto and AttributeProto.
#include "onnx_messages.h"

#include <cstring>
#include <utility>

#include "protobuf.h"
#include "rapt/error.h"

namespace rapt::conformance {
namespace {

DType dtype_of_number(int64_t number) {  // TensorProto.DataType
  switch (number) {
    case 1:
      return DType::f32;
    case 2:
      return DType::u8;
    case 6:
      return DType::i32;
    case 7:
      return DType::i64;
    case 9:
      return DType::boolean;
    case 10:
      return DType::f16;
    case 11:
      return DType::f64;
    case 16:
      return DType::bf16;
    default:
      throw Error(ErrorCode::unsupported,
                  "tensor: data_type " + std::to_string(number) + " has no dtype here");
  }
}

// Lengths come one by one, or packed: several in the bytes of one field.
void read_dims(const Field& field, std::vector<int64_t>& dims) {
  if (field.type == 0) {
    dims.push_back(field.integer());
    return;
  }
  for (Message list(field.bytes()); !list.empty();)
    dims.push_back(static_cast<int64_t>(list.varint()));
}

Node read_node(std::span<const std::byte> bytes) {
  Node node;
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.number == 1) node.inputs.push_back(field.text());
    if (field.number == 2) node.outputs.push_back(field.text());
    if (field.number == 4) node.op_type = field.text();
    if (field.number == 7) node.domain = field.text();
    if (field.number != 5) continue;
    std::string name;
    Attribute attribute;
    Message inner(field.bytes());
    for (Field part; inner.next(part);) {
      if (part.number == 1) name = part.text();
      if (part.number == 2) attribute.real = part.real();
      if (part.number == 3) attribute.integer = part.integer();
      if (part.number == 4) attribute.text = part.text();
    }
    node.attributes[name] = attribute;
  }
  return node;
}

}  // namespace

Tensor read_tensor(std::span<const std::byte> bytes) {
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  std::span<const std::byte> raw;
  Message message(bytes);
  for (Field field; message.next(field);) {
    switch (field.number) {
      case 1:
        read_dims(field, dims);
        break;
      case 2:
        data_type = field.integer();
        break;
      case 4:  // float_data, int32_data, string_data, int64_data
      case 5:
      case 6:
      case 7:
      case 10:  // double_data, uint64_data
      case 11:
      case 13:  // external_data
        throw Error(ErrorCode::unsupported, "tensor: elements in field " +
                                                std::to_string(field.number) +
                                                "; expected raw_data, field 9");
      case 9:
        raw = field.bytes();
        break;
      default:  // name, doc_string
        break;
    }
  }
  const DType dtype = dtype_of_number(data_type);
  const int64_t bytes_wanted = element_count(dims) * size_of(dtype);
  if (std::cmp_not_equal(raw.size(), bytes_wanted))
    throw Error(ErrorCode::format, "tensor " + to_string(dims) + " " + rapt::name_of(dtype) +
                                       ": expected " + std::to_string(bytes_wanted) +
                                       " bytes, got " + std::to_string(raw.size()));
  if (dtype == DType::boolean)
    for (const std::byte b : raw)
      if (b > std::byte{1})
        throw Error(ErrorCode::format, "tensor: a truth value that is neither 0 nor 1");
  Tensor tensor(dtype, dims);
  if (!raw.empty()) std::memcpy(tensor.data(), raw.data(), raw.size());  // both are little-endian
  return tensor;
}

int64_t Node::integer(const std::string& name, int64_t otherwise) const {
  return has(name) ? attributes.at(name).integer : otherwise;
}
double Node::real(const std::string& name, double otherwise) const {
  return has(name) ? static_cast<double>(attributes.at(name).real) : otherwise;
}
std::string Node::text(const std::string& name, const std::string& otherwise) const {
  return has(name) ? attributes.at(name).text : otherwise;
}

std::vector<Node> read_nodes(std::span<const std::byte> model) {
  std::vector<Node> nodes;
  Message message(model);
  for (Field field; message.next(field);) {
    if (field.number != 7) continue;  // graph
    Message graph(field.bytes());
    for (Field part; graph.next(part);)
      if (part.number == 1) nodes.push_back(read_node(part.bytes()));
  }
  return nodes;
}

}  // namespace rapt::conformance
