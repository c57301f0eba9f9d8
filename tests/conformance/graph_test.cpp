// The interpreter of ONNX graphs, operator by operator.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "conformance/graph.h"
#include "rapt/error.h"

namespace {

using namespace rapt::conformance;
using rapt::DType;
using rapt::Tensor;

template <class T>
Tensor tensor(std::initializer_list<int64_t> dims, std::initializer_list<T> values) {
  Tensor t(rapt::dtype_of<T>(), dims);
  std::copy(values.begin(), values.end(), t.template values<T>().begin());
  return t;
}
Tensor integers(std::initializer_list<int64_t> values) {
  return tensor<int64_t>({static_cast<int64_t>(values.size())}, values);
}

// A graph of one input x, which is built node by node; its output is the last node's.
class GraphOfX {
 public:
  GraphOfX() { graph_.inputs = {"x"}; }
  GraphOfX& with(const std::string& name, Tensor value) {
    graph_.initializers.insert_or_assign(name, std::move(value));
    return *this;
  }
  GraphOfX& node(const std::string& op_type, std::vector<std::string> inputs,
                 const std::string& output, const std::string& name = "", int64_t integer = 0) {
    Node node{.op_type = op_type,
              .domain = "",
              .inputs = std::move(inputs),
              .outputs = {output},
              .attributes = {}};
    if (!name.empty()) node.attributes[name].integer = integer;
    graph_.nodes.push_back(std::move(node));
    graph_.outputs = {output};
    return *this;
  }
  Tensor of(const Tensor& x) const { return run_graph(graph_, x); }
  std::string error_of(const Tensor& x) const {
    try {
      run_graph(graph_, x);
    } catch (const rapt::Error& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  Graph graph_;
};

template <class T>
void expect_elements(const Tensor& got, std::initializer_list<int64_t> dims,
                     std::initializer_list<T> wanted) {
  EXPECT_EQ(rapt::to_string(got.dims()), rapt::to_string(rapt::Shape(dims.begin(), dims.size())));
  const auto elements = got.values<T>();
  ASSERT_EQ(elements.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(elements[i], wanted.begin()[i]) << i;
}

TEST(Graph, ArithmeticBroadcastsAndRounds) {
  const Tensor x = tensor<float>({2, 1}, {1, 3}), row = tensor<float>({3}, {10, 20, 30});
  const auto with_row = [&](const char* op) {
    return GraphOfX().with("row", Tensor::copy_of(row)).node(op, {"x", "row"}, "y").of(x);
  };
  expect_elements<float>(with_row("Add"), {2, 3}, {11, 21, 31, 13, 23, 33});
  expect_elements<float>(with_row("Sub"), {2, 3}, {-9, -19, -29, -7, -17, -27});
  expect_elements<float>(with_row("Mul"), {2, 3}, {10, 20, 30, 30, 60, 90});
  expect_elements<float>(with_row("Div"), {2, 3},
                         {1 / 10.0f, 1 / 20.0f, 1 / 30.0f, 3 / 10.0f, 3 / 20.0f, 3 / 30.0f});
  // Integers are divided towards 0.
  expect_elements<int64_t>(
      GraphOfX().with("two", integers({2})).node("Div", {"x", "two"}, "y").of(integers({-7, 7})),
      {2}, {-3, 3});
  expect_elements<float>(GraphOfX().node("Tanh", {"x"}, "y").of(x), {2, 1},
                         {static_cast<float>(std::tanh(1.0)), static_cast<float>(std::tanh(3.0))});
}

TEST(Graph, MasksByPositions) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  GraphOfX causal;
  causal.with("0", tensor<int64_t>({}, {0})).with("1", tensor<int64_t>({}, {1}));
  causal.with("column", integers({-1, 1})).with("row", integers({1, -1}));
  causal.with("-inf", tensor<float>({}, {-inf}));
  causal.node("Shape", {"x"}, "shape").node("Gather", {"shape", "0"}, "q_len", "axis", 0);
  causal.node("Gather", {"shape", "1"}, "k_len");
  causal.node("Range", {"0", "q_len", "1"}, "q").node("Reshape", {"q", "column"}, "i");
  causal.node("Range", {"0", "k_len", "1"}, "k").node("Reshape", {"k", "row"}, "j");
  causal.node("GreaterOrEqual", {"i", "j"}, "may").node("Where", {"may", "x", "-inf"}, "y");
  expect_elements<float>(causal.of(tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6})), {2, 3},
                         {1, -inf, -inf, 4, 5, -inf});
}

TEST(Graph, CastAndNegativeIndices) {
  expect_elements<float>(GraphOfX().node("Cast", {"x"}, "y", "to", 1).of(integers({-2, 3})), {2},
                         {-2, 3});
  expect_elements<int64_t>(
      GraphOfX().node("Cast", {"x"}, "y", "to", 7).of(tensor<float>({2}, {-2.5f, 2.5f})), {2},
      {-2, 2});
  expect_elements<float>(GraphOfX()
                             .with("last", integers({-1, 0}))
                             .node("Gather", {"x", "last"}, "y")
                             .of(tensor<float>({2, 2}, {1, 2, 3, 4})),
                         {2, 2}, {3, 4, 1, 2});
}

TEST(Graph, Errors) {
  const Tensor x = tensor<float>({2}, {1, 2});
  const auto expect = [&](const char* words, const GraphOfX& graph, const Tensor& of) {
    const std::string error = graph.error_of(of);
    EXPECT_NE(error.find(words), std::string::npos) << error << " lacks: " << words;
  };
  expect("Erf: this operator", GraphOfX().node("Erf", {"x"}, "y"), x);
  expect("no node before gives \"a\"", GraphOfX().node("Add", {"x", "a"}, "y"), x);
  expect("input 1 of 1", GraphOfX().node("Add", {"x"}, "y"), x);
  expect("f32 beside i64", GraphOfX().with("a", integers({1})).node("Add", {"x", "a"}, "y"), x);
  expect("[2] and [3]",
         GraphOfX().with("a", tensor<float>({3}, {1, 2, 3})).node("Add", {"x", "a"}, "y"), x);
  expect("the attribute alpha", GraphOfX().node("Tanh", {"x"}, "y", "alpha", 1), x);
  expect("an index beyond the end",
         GraphOfX().with("a", integers({2})).node("Gather", {"x", "a"}, "y"), x);
  expect("an integer by 0", GraphOfX().with("a", integers({0})).node("Div", {"x", "a"}, "y"),
         integers({1}));
  expect("2^53 or more", GraphOfX().node("Mul", {"x", "x"}, "y"), integers({int64_t{1} << 27}));
  GraphOfX itself;
  itself.with("0", integers({0})).node("Add", {"x", "0"}, "y");
  expect("2^53 or more", itself, integers({(int64_t{1} << 53) + 1}));
  expect("2^53 or more", itself, integers({-(int64_t{1} << 53)}));
  expect("accepted", itself, integers({(int64_t{1} << 53) - 1}));
  expect("[2] as [3]", GraphOfX().with("a", integers({3})).node("Reshape", {"x", "a"}, "y"), x);
  expect("one input and one output", GraphOfX(), x);
}

TEST(Graph, RejectsShapesAndIndicesThatAreNone) {
  const auto error_of = [](const char* op, Tensor second, const Tensor& x) {
    return GraphOfX().with("a", std::move(second)).node(op, {"x", "a"}, "y").error_of(x);
  };
  const auto expect = [](const std::string& error, const char* words) {
    EXPECT_NE(error.find(words), std::string::npos) << error << " lacks: " << words;
  };
  const Tensor x = tensor<float>({1}, {1});
  expect(error_of("Reshape", tensor<float>({1}, {1e30f}), x), "expected integers");
  expect(error_of("Gather", tensor<float>({1}, {0.5f}), x), "expected integers");
  expect(error_of("Reshape", integers({-1, -1}), x), "[1] as [-1, -1]");
  expect(error_of("Reshape", integers({-2, 1}), x), "[1] as [-2]");
  const int64_t large = int64_t{1} << 52;
  expect(error_of("Reshape", integers({large, large}), x), "[1] as");
}

TEST(Graph, LimitsItsTensors) {
  GraphOfX square;
  square.with("0", tensor<int64_t>({}, {0})).with("1", tensor<int64_t>({}, {1}));
  square.with("column", integers({-1, 1})).with("row", integers({1, -1}));
  square.node("Range", {"0", "x", "1"}, "all").node("Reshape", {"all", "column"}, "i");
  square.node("Reshape", {"all", "row"}, "j").node("Add", {"i", "j"}, "y");
  const std::string error = square.error_of(tensor<int64_t>({}, {5000}));
  EXPECT_NE(error.find("[5000, 5000]; expected at most 16777216"), std::string::npos) << error;
}

}  // namespace
