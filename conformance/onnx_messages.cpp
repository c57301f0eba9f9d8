// Reads TensorProto, ModelProto, GraphProto, NodeProto, AttributeProto and the names of
// ValueInfoProto.
#include "onnx_messages.h"

#include <cstring>
#include <utility>

#include "protobuf.h"
#include "rapt/error.h"

namespace rapt::conformance {
namespace {

// Lengths come one by one, or packed: several in the bytes of one field.
void read_dims(const Field& field, std::vector<int64_t>& dims) {
  if (field.type == 0) {
    dims.push_back(field.integer());
    return;
  }
  for (Message list(field.bytes()); !list.empty();)
    dims.push_back(static_cast<int64_t>(list.varint()));
}

// Appends the bytes of elements that come one by one, or packed: float_data and int64_data.
void read_elements(const Field& field, std::vector<std::byte>& elements) {
  const auto append = [&](const auto& element) {
    const auto bytes = std::as_bytes(std::span(&element, 1));
    elements.insert(elements.end(), bytes.begin(), bytes.end());
  };
  if (field.number == 4 && field.type == 5) {
    append(field.real());
  } else if (field.number == 4) {  // packed numbers of 4 bytes, little-endian
    elements.insert(elements.end(), field.bytes().begin(), field.bytes().end());
  } else if (field.type == 0) {
    append(field.integer());
  } else {
    for (Message list(field.bytes()); !list.empty();) append(list.varint());
  }
}

std::shared_ptr<const Graph> read_graph(std::span<const std::byte> bytes);

enum class Graphs : uint8_t { read, reject };  // those of attributes

Node read_node(std::span<const std::byte> bytes, Graphs graphs) {
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
      if (part.number != 6) continue;
      if (graphs == Graphs::reject)
        throw Error(ErrorCode::unsupported, "graph: a node of the graph of an attribute has one");
      attribute.graph = read_graph(part.bytes());
    }
    node.attributes[name] = attribute;
  }
  return node;
}

// The first field of this number in a message, a name; "" if there is none.
std::string name_in(std::span<const std::byte> bytes, uint32_t number) {
  Message message(bytes);
  for (Field field; message.next(field);)
    if (field.number == number) return field.text();
  return "";
}

std::shared_ptr<const Graph> read_graph(std::span<const std::byte> bytes) {
  const auto graph = std::make_shared<Graph>();
  Message message(bytes);
  for (Field field; message.next(field);) {
    if (field.number == 1) graph->nodes.push_back(read_node(field.bytes(), Graphs::reject));
    if (field.number == 5)
      graph->initializers.insert_or_assign(name_in(field.bytes(), 8), read_tensor(field.bytes()));
    if (field.number == 11) graph->inputs.push_back(name_in(field.bytes(), 1));
    if (field.number == 12) graph->outputs.push_back(name_in(field.bytes(), 1));
  }
  return graph;
}

}  // namespace

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

Tensor read_tensor(std::span<const std::byte> bytes) {
  std::vector<int64_t> dims;
  int64_t data_type = 0;
  std::span<const std::byte> raw;
  std::vector<std::byte> typed;
  uint32_t typed_number = 0;  // of the field of `typed`
  Message message(bytes);
  for (Field field; message.next(field);) {
    switch (field.number) {
      case 1:
        read_dims(field, dims);
        break;
      case 2:
        data_type = field.integer();
        break;
      case 4:  // float_data
      case 7:  // int64_data
        read_elements(field, typed);
        typed_number = field.number;
        break;
      case 5:   // int32_data
      case 6:   // string_data
      case 10:  // double_data
      case 11:  // uint64_data
      case 13:  // external_data
        throw Error(ErrorCode::unsupported,
                    "tensor: elements in field " + std::to_string(field.number) +
                        "; expected raw_data, float_data or int64_data: fields 9, 4 and 7");
      case 9:
        raw = field.bytes();
        break;
      default:  // name, doc_string
        break;
    }
  }
  const DType dtype = dtype_of_number(data_type);
  if (typed_number != 0) {
    if (!raw.empty() || dtype != (typed_number == 4 ? DType::f32 : DType::i64))
      throw Error(ErrorCode::format, std::string("tensor: ") + rapt::name_of(dtype) +
                                         " elements in field " + std::to_string(typed_number) +
                                         (raw.empty() ? "" : " and in raw_data"));
    raw = typed;
  }
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
      if (part.number == 1) nodes.push_back(read_node(part.bytes(), Graphs::read));
  }
  return nodes;
}

}  // namespace rapt::conformance
