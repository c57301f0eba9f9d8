// Values by name, and one function per operator or family of operators.
#include "graph.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "operators.h"
#include "rapt/error.h"

namespace rapt::conformance {
namespace {

// Integers are below 2^53 in size: f64 holds 2^53, too, but as the rounded 2^53 + 1 as well.
constexpr double kIntegers = 9007199254740992.0;
constexpr int64_t kMostElements = 1 << 24;  // of a tensor: 128 MiB of f64

// A dense row-major tensor whose elements are stored as f64.
struct Value {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;
  std::vector<double> elements;
};

[[noreturn]] void fail_node(const Node& node, ErrorCode code, const std::string& what) {
  throw Error(code, "graph: " + node.op_type + ": " + what);
}

double rounded_to(DType dtype, double x, const Node& node) {
  if (dtype == DType::f32) return static_cast<float>(x);
  if (dtype == DType::f64) return x;
  if (dtype == DType::boolean) return x != 0 ? 1 : 0;
  if (!(std::abs(x) < kIntegers))
    fail_node(node, ErrorCode::overflow, "an integer of 2^53 or more");
  return std::trunc(x);
}

bool is_real(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

// Calls use(elements) with the elements of a dense tensor of a dtype that graphs have.
template <class Use>
void with_elements(Tensor& tensor, const Use& use) {
  switch (tensor.dtype()) {
    case DType::f32:
      return use(tensor.values<float>());
    case DType::f64:
      return use(tensor.values<double>());
    case DType::i64:
      return use(tensor.values<int64_t>());
    case DType::boolean:
      return use(tensor.values<bool>());
    default:
      throw Error(ErrorCode::unsupported,
                  std::string("graph: a tensor of ") + rapt::name_of(tensor.dtype()));
  }
}

// The elements of a tensor, known before its memory is taken.
int64_t bounded_count(Shape dims) {
  const int64_t count = element_count(dims);
  if (count > kMostElements)
    throw Error(ErrorCode::unsupported, "graph: a tensor " + to_string(dims) +
                                            "; expected at most " + std::to_string(kMostElements) +
                                            " elements");
  return count;
}

Value value_of(const TensorView& view) {
  bounded_count(view.dims());
  Value value{view.dtype, {view.dims().begin(), view.dims().end()}, {}};
  Tensor dense = Tensor::copy_of(view);
  with_elements(dense, [&](auto elements) {
    for (const auto x : elements) {
      const auto element = static_cast<double>(x);
      if (value.dtype == DType::i64 && !(std::abs(element) < kIntegers))
        throw Error(ErrorCode::overflow, "graph: an integer of 2^53 or more");
      value.elements.push_back(element);
    }
  });
  return value;
}

Tensor tensor_of(const Value& value) {
  Tensor tensor(value.dtype, value.dims);
  with_elements(tensor, [&](auto elements) {
    using T = typename decltype(elements)::value_type;
    std::transform(value.elements.begin(), value.elements.end(), elements.begin(),
                   [](double x) { return static_cast<T>(x); });
  });
  return tensor;
}

using Arguments = std::vector<const Value*>;  // the inputs of a node, all present

const Value& argument_of(const Node& node, const Arguments& in, size_t i) {
  if (i >= in.size())
    fail_node(node, ErrorCode::format,
              "input " + std::to_string(i) + " of " + std::to_string(in.size()));
  return *in[i];
}

const std::vector<double>& integers_of(const Node& node, const Value& value) {
  if (value.dtype != DType::i64)
    fail_node(node, ErrorCode::format,
              std::string(rapt::name_of(value.dtype)) + "; expected integers of i64");
  return value.elements;
}

double scalar_of(const Node& node, const Arguments& in, size_t i) {
  const Value& value = argument_of(node, in, i);
  if (value.elements.size() != 1)
    fail_node(node, ErrorCode::shape, to_string(value.dims) + "; expected a scalar");
  return value.elements[0];
}

void require_same_dtype(const Node& node, const Value& a, const Value& b) {
  if (a.dtype != b.dtype)
    fail_node(node, ErrorCode::format,
              std::string(rapt::name_of(a.dtype)) + " beside " + rapt::name_of(b.dtype));
}

// The shape to which all inputs are broadcast, by NumPy's rule.
std::vector<int64_t> broadcast_dims(const Node& node, const Arguments& in) {
  size_t rank = 0;
  for (const Value* value : in) rank = std::max(rank, value->dims.size());
  std::vector<int64_t> dims(rank, 1);
  for (const Value* value : in)
    for (size_t i = 0; i < value->dims.size(); ++i) {
      int64_t& wide = dims[rank - 1 - i];
      const int64_t own = value->dims[value->dims.size() - 1 - i];
      if (wide != own && wide != 1 && own != 1)
        fail_node(node, ErrorCode::shape, to_string(dims) + " and " + to_string(value->dims));
      if (wide == 1) wide = own;
    }
  return dims;
}

// The place in `value` of element `at` of a tensor of the shape `dims`.
size_t broadcast_place(const Value& value, const std::vector<int64_t>& dims, int64_t at) {
  int64_t place = 0, stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t length = dims[dims.size() - 1 - i], index = at % length;
    at /= length;
    if (i >= value.dims.size()) continue;
    const int64_t own = value.dims[value.dims.size() - 1 - i];
    place += own == 1 ? 0 : index * stride;
    stride *= own;
  }
  return static_cast<size_t>(place);
}

// One function of the elements that stand at the same place; `x` are these, one per input.
using Elementwise = std::function<double(const double* x)>;

Value elementwise(const Node& node, const Arguments& in, DType dtype, const Elementwise& f) {
  Value out{dtype, broadcast_dims(node, in), {}};
  const int64_t count = bounded_count(out.dims);
  double x[3] = {};
  for (int64_t at = 0; at < count; ++at) {
    for (size_t i = 0; i < in.size(); ++i)
      x[i] = in[i]->elements[broadcast_place(*in[i], out.dims, at)];
    out.elements.push_back(rounded_to(dtype, f(x), node));
  }
  return out;
}

Value arithmetic(const Node& node, const Arguments& in) {
  require_known(node, {});
  const Value &a = argument_of(node, in, 0), &b = argument_of(node, in, 1);
  require_same_dtype(node, a, b);
  if (a.dtype == DType::boolean) fail_node(node, ErrorCode::format, "of bool");
  const std::string& op = node.op_type;
  const auto quotient = [&](double x, double y) {
    if (a.dtype == DType::i64 && y == 0) fail_node(node, ErrorCode::argument, "an integer by 0");
    return x / y;  // rounded_to() cuts those of integers
  };
  return elementwise(node, {&a, &b}, a.dtype, [&](const double* x) {
    if (op == "Add") return x[0] + x[1];
    if (op == "Sub") return x[0] - x[1];
    if (op == "Mul") return x[0] * x[1];
    return quotient(x[0], x[1]);
  });
}

Value tanh_of(const Node& node, const Arguments& in) {
  require_known(node, {});
  const Value& x = argument_of(node, in, 0);
  if (!is_real(x.dtype)) fail_node(node, ErrorCode::format, "expected f32 or f64");
  return elementwise(node, {&x}, x.dtype, [](const double* e) { return std::tanh(e[0]); });
}

Value greater_or_equal(const Node& node, const Arguments& in) {
  require_known(node, {});
  const Value &a = argument_of(node, in, 0), &b = argument_of(node, in, 1);
  require_same_dtype(node, a, b);
  return elementwise(node, {&a, &b}, DType::boolean,
                     [](const double* x) { return x[0] >= x[1] ? 1.0 : 0.0; });
}

Value where(const Node& node, const Arguments& in) {
  require_known(node, {});
  const Value& condition = argument_of(node, in, 0);
  const Value &a = argument_of(node, in, 1), &b = argument_of(node, in, 2);
  if (condition.dtype != DType::boolean)
    fail_node(node, ErrorCode::format, "expected a condition of bool");
  require_same_dtype(node, a, b);
  return elementwise(node, {&condition, &a, &b}, a.dtype,
                     [](const double* x) { return x[0] != 0 ? x[1] : x[2]; });
}

Value cast(const Node& node, const Arguments& in) {
  require_known(node, {"to"});
  const DType to = dtype_of_number(node.integer("to", 0));
  if (!is_real(to) && to != DType::i64 && to != DType::boolean)
    fail_node(node, ErrorCode::unsupported, std::string("to ") + rapt::name_of(to));
  return elementwise(node, {&argument_of(node, in, 0)}, to, [](const double* x) { return x[0]; });
}

Value shape_of(const Node& node, const Arguments& in) {
  require_known(node, {});
  const std::vector<int64_t>& dims = argument_of(node, in, 0).dims;
  return {DType::i64, {static_cast<int64_t>(dims.size())}, {dims.begin(), dims.end()}};
}

// Slices of dimension 0; negative indices count from its end.
Value gather(const Node& node, const Arguments& in) {
  require_known(node, {"axis"});
  const Value &data = argument_of(node, in, 0), &indices = argument_of(node, in, 1);
  if (node.integer("axis", 0) != 0 || data.dims.empty())
    fail_node(node, ErrorCode::unsupported, "expected axis 0 of a tensor that has one");
  Value out{data.dtype, indices.dims, {}};
  out.dims.insert(out.dims.end(), data.dims.begin() + 1, data.dims.end());
  bounded_count(out.dims);
  const auto length = static_cast<double>(data.dims[0]);
  const auto slice = element_count(Shape(data.dims).subspan(1));
  for (const double given : integers_of(node, indices)) {
    const double index = given < 0 ? given + length : given;
    if (!(index >= 0 && index < length))
      fail_node(node, ErrorCode::argument, "an index beyond the end");
    const auto first = data.elements.begin() + static_cast<int64_t>(index) * slice;
    out.elements.insert(out.elements.end(), first, first + slice);
  }
  return out;
}

Value range_of(const Node& node, const Arguments& in) {
  require_known(node, {});
  const double start = scalar_of(node, in, 0), limit = scalar_of(node, in, 1);
  const double delta = scalar_of(node, in, 2);
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count <= static_cast<double>(kMostElements)))
    fail_node(node, ErrorCode::unsupported,
              "expected at most " + std::to_string(kMostElements) + " numbers");
  Value out{in[0]->dtype, {static_cast<int64_t>(count)}, {}};
  for (double i = 0; i < count; ++i)
    out.elements.push_back(rounded_to(out.dtype, start + i * delta, node));
  return out;
}

// A length of 0 is that of the input, -1 (one at most) what is left.
Value reshape(const Node& node, const Arguments& in) {
  require_known(node, {});
  Value out = argument_of(node, in, 0);
  const std::vector<double>& asked = integers_of(node, argument_of(node, in, 1));
  const auto count = static_cast<int64_t>(out.elements.size());
  std::vector<int64_t> dims;
  int64_t known = 1, open = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    const bool copied = asked[i] == 0 && i < out.dims.size();
    dims.push_back(copied ? out.dims[i] : static_cast<int64_t>(asked[i]));
    open += dims.back() == -1;
    if (dims.back() < -1 || open > 1 ||
        (dims.back() != -1 && __builtin_mul_overflow(known, dims.back(), &known)))
      fail_node(node, ErrorCode::shape, to_string(out.dims) + " as " + to_string(dims));
  }
  for (int64_t& length : dims)
    if (length == -1) length = known == 0 ? 0 : count / known;
  if (element_count(dims) != count)
    fail_node(node, ErrorCode::shape, to_string(out.dims) + " as " + to_string(dims));
  out.dims = std::move(dims);
  return out;
}

struct GraphOperator {
  const char* op_type;
  Value (*run)(const Node&, const Arguments&);
};
constexpr GraphOperator kGraphOperators[] = {
    {"Add", arithmetic}, {"Sub", arithmetic}, {"Mul", arithmetic},
    {"Div", arithmetic}, {"Tanh", tanh_of},   {"GreaterOrEqual", greater_or_equal},
    {"Where", where},    {"Cast", cast},      {"Shape", shape_of},
    {"Gather", gather},  {"Range", range_of}, {"Reshape", reshape},
};

Value run_node(const Node& node, const Arguments& in) {
  for (const GraphOperator& op : kGraphOperators)
    if (node.op_type == op.op_type && node.domain.empty()) return op.run(node, in);
  fail_node(node, ErrorCode::unsupported, "this operator is not among those of graph.h");
}

}  // namespace

Tensor run_graph(const Graph& graph, const TensorView& input) {
  if (graph.inputs.size() != 1 || graph.outputs.size() != 1)
    throw Error(ErrorCode::unsupported, "graph: expected one input and one output");
  std::map<std::string, Value> values;
  for (const auto& [name, tensor] : graph.initializers) values[name] = value_of(tensor);
  values[graph.inputs[0]] = value_of(input);
  const auto value_at = [&](const std::string& name) -> const Value& {
    const auto found = values.find(name);
    if (found == values.end())
      throw Error(ErrorCode::format, "graph: no node before gives \"" + name + "\"");
    return found->second;
  };
  for (const Node& node : graph.nodes) {
    Arguments in;
    for (const std::string& name : node.inputs) in.push_back(&value_at(name));
    if (node.outputs.size() != 1)
      throw Error(ErrorCode::format, "graph: " + node.op_type + ": expected one output");
    values.insert_or_assign(node.outputs[0], run_node(node, in));
  }
  return tensor_of(value_at(graph.outputs[0]));
}

}  // namespace rapt::conformance
