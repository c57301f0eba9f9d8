// The readers of archives and ONNX messages, on valid and on random bytes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>

#include "conformance/node_test.h"
#include "conformance/protobuf.h"
#include "rapt/error.h"
#include "wire_bytes.h"

namespace {

using namespace rapt::conformance;
using rapt::Tensor;

std::span<const std::byte> span_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const rapt::Error& error) {
    return error.what();
  }
  return "accepted";
}
void expect_refused(const std::string& words, const std::function<void()>& call) {
  const std::string message = message_of(call);
  EXPECT_NE(message.find(words), std::string::npos) << message << " lacks: " << words;
}

const std::string kTensor = wire::tensor({2, 1, 2}, {1.5f, -2, 3, 0.25f});

// A model with one node: Softmax(x, "", z) -> y with axis = -1, alpha = 0.5 and mode = "linear".
std::string model() {
  const std::string axis =
      wire::bytes(1, "axis") + wire::number(3, ~uint64_t{0}) + wire::number(20, 2);
  const std::string alpha = wire::bytes(1, "alpha") + wire::real(2, 0.5f);
  const std::string mode = wire::bytes(1, "mode") + wire::bytes(4, "linear");
  const std::string node = wire::bytes(1, "x") + wire::bytes(1, "") + wire::bytes(1, "z") +
                           wire::bytes(2, "y") + wire::bytes(4, "Softmax") + wire::bytes(5, axis) +
                           wire::bytes(5, alpha) + wire::bytes(5, mode);
  return wire::number(1, 10) + wire::bytes(7, wire::bytes(1, node) + wire::bytes(2, "graph")) +
         wire::bytes(8, wire::number(2, 13));
}

TEST(Readers, Tensors) {
  const Tensor t = read_tensor(span_of(kTensor));
  EXPECT_EQ(rapt::to_string(t.dims()), "[2, 1, 2]");
  EXPECT_EQ(t.values<float>()[3], 0.25f);
  // Packed dims have the same meaning, and a tensor without dims is a scalar.
  const std::string data = wire::number(2, 7) + wire::bytes(9, std::string(1200, '\1'));
  EXPECT_EQ(
      rapt::to_string(
          read_tensor(span_of(wire::bytes(1, wire::varint(150) + wire::varint(1)) + data)).dims()),
      "[150, 1]");
  EXPECT_EQ(read_tensor(span_of(wire::number(2, 11) + wire::bytes(9, std::string(8, '\0')))).rank(),
            0);
}

TEST(Readers, TypedElements) {
  const std::string two = wire::number(1, 2), minus_one = wire::varint(~uint64_t{0});
  for (const std::string& elements : {wire::number(7, 300) + wire::number(7, ~uint64_t{0}),
                                      wire::bytes(7, wire::varint(300) + minus_one)}) {
    const Tensor t = read_tensor(span_of(two + wire::number(2, 7) + elements));
    EXPECT_EQ(t.values<int64_t>()[0], 300);
    EXPECT_EQ(t.values<int64_t>()[1], -1);
  }
  for (const std::string& elements :
       {wire::real(4, 0.5f) + wire::real(4, -3),
        wire::bytes(4, wire::real(4, 0.5f).substr(1) + wire::real(4, -3).substr(1))}) {
    const Tensor t = read_tensor(span_of(two + wire::number(2, 1) + elements));
    EXPECT_EQ(t.values<float>()[0], 0.5f);
    EXPECT_EQ(t.values<float>()[1], -3);
  }
}

TEST(Readers, RefusedTensors) {
  const auto refused = [](const std::string& words, const std::string& bytes) {
    expect_refused(words, [&] { read_tensor(span_of(bytes)); });
  };
  const std::string raw = wire::bytes(9, std::string(8, '\0'));
  refused("expected 16 bytes, got 8", wire::number(1, 4) + wire::number(2, 1) + raw);
  refused("data_type 8", wire::number(1, 2) + wire::number(2, 8) + raw);  // strings
  refused("raw_data", wire::number(1, 1) + wire::number(2, 6) + wire::bytes(5, "abcd"));
  refused("f32 elements in field 7", wire::number(1, 1) + wire::number(2, 1) + wire::number(7, 1));
  refused("i64 elements in field 7 and in raw_data",
          wire::number(1, 1) + wire::number(2, 7) + wire::number(7, 1) + raw);
  refused("expected 8 bytes, got 4",
          wire::number(1, 2) + wire::number(2, 1) + wire::bytes(4, "abcd"));
  refused("negative length", wire::number(1, ~uint64_t{0}) + wire::number(2, 1) + raw);
  refused("too many elements", wire::number(1, uint64_t{1} << 40) +
                                   wire::number(1, uint64_t{1} << 40) + wire::number(2, 1));
  refused("neither 0 nor 1", wire::number(1, 1) + wire::number(2, 9) + wire::bytes(9, "\2"));
  refused("wire type 0; expected 2", wire::number(9, 5));
}

TEST(Readers, WireFormat) {
  const auto refused = [](const std::string& words, const std::string& bytes) {
    expect_refused(words, [&] {
      Message message(span_of(bytes));
      for (Field field; message.next(field);) {
      }
    });
  };
  refused("wire type 3", wire::varint(1 << 3 | 3));
  refused("number is out of range", wire::varint(2));
  refused("number is out of range", wire::varint(uint64_t{1} << 40 | 2));
  refused("more than 64 bits", "\x08" + std::string(9, '\xFF') + "\2");
  refused("expected 9 bytes, 3 are left",
          "\x0A\x09"
          "abc");
  refused("expected 1 bytes, 0 are left", "\x08\x80");
  refused("expected 18446744073709551615 bytes",
          "\x0A" + wire::varint(std::numeric_limits<uint64_t>::max()));
  Field field;
  const std::string bytes = wire::number(1, std::numeric_limits<uint64_t>::max());
  Message largest(span_of(bytes));
  EXPECT_TRUE(largest.next(field));
  EXPECT_EQ(field.integer(), -1);
  EXPECT_FALSE(largest.next(field));
}

TEST(Readers, Nodes) {
  const std::vector<Node> nodes = read_nodes(span_of(model()));
  ASSERT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes[0].op_type, "Softmax");
  EXPECT_EQ(nodes[0].inputs, (std::vector<std::string>{"x", "", "z"}));
  EXPECT_EQ(nodes[0].integer("axis", 7), -1);
  EXPECT_EQ(nodes[0].integer("absent", 7), 7);
  EXPECT_EQ(nodes[0].real("alpha", 7), 0.5);
  EXPECT_EQ(nodes[0].text("mode", ""), "linear");
}

// A node with the attribute `mod`: the graph z = Add(x, half), half = 0.5.
std::string node_with_graph(const std::string& more) {
  const std::string add = wire::bytes(1, "x") + wire::bytes(1, "half") + wire::bytes(2, "z") +
                          wire::bytes(4, "Add") + more;
  const std::string half = wire::number(2, 1) + wire::real(4, 0.5f) + wire::bytes(8, "half");
  const std::string graph = wire::bytes(1, add) + wire::bytes(5, half) +
                            wire::bytes(11, wire::bytes(1, "x")) +
                            wire::bytes(12, wire::bytes(1, "z"));
  return wire::bytes(5, wire::bytes(1, "mod") + wire::bytes(6, graph));
}

TEST(Readers, GraphsOfAttributes) {
  const auto model_of = [](const std::string& node) {
    return wire::bytes(7, wire::bytes(1, node));
  };
  const std::vector<Node> nodes = read_nodes(span_of(model_of(node_with_graph(""))));
  ASSERT_EQ(nodes.size(), 1u);
  const Graph& graph = *nodes[0].attributes.at("mod").graph;
  EXPECT_EQ(graph.inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(graph.outputs, std::vector<std::string>{"z"});
  EXPECT_EQ(graph.initializers.at("half").values<float>()[0], 0.5f);
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].inputs, (std::vector<std::string>{"x", "half"}));
  expect_refused("graph of an attribute",
                 [&] { read_nodes(span_of(model_of(node_with_graph(node_with_graph(""))))); });
}

std::string archive() {
  const std::string folder = "./some/test_softmax/", data = folder + "test_data_set_0/";
  const std::string long_name = data + std::string(120, 'n');
  return wire::record("./some", "", '5') + wire::record(folder + "model.onnx", model()) +
         wire::record(data + "input_0.pb", kTensor) + wire::record(data + "input_1.pb", kTensor) +
         wire::record(data + "output_0.pb", kTensor) +
         wire::record("././@LongLink", long_name + '\0', 'L') + wire::record("cut", "content") +
         wire::end_of_tar();
}

TEST(Readers, Archives) {
  const std::string packed = wire::gzip(archive());
  const auto files = read_tar(gunzip(span_of(packed), 1 << 20));
  EXPECT_EQ(files.size(), 5u);
  EXPECT_EQ(files.count("some/test_softmax/test_data_set_0/" + std::string(120, 'n')), 1u);
  const std::vector<NodeTest> tests = read_node_tests(files);
  ASSERT_EQ(tests.size(), 1u);
  EXPECT_EQ(tests[0].name, "test_softmax");
  EXPECT_TRUE(tests[0].input(0).defined());
  EXPECT_FALSE(
      tests[0].input(1).defined());  // input 1 has an empty name, so input_1.pb belongs to input 2
  EXPECT_TRUE(tests[0].input(2).defined());
  EXPECT_FALSE(tests[0].input(3).defined());

  expect_refused("more than 1000 bytes", [&] { gunzip(span_of(packed), 1000); });
  expect_refused("end too early",
                 [&] { gunzip(span_of(packed.substr(0, packed.size() - 9)), 1 << 20); });
  expect_refused("behind the gzip data", [&] { gunzip(span_of(packed + "x"), 1 << 20); });
  const auto refused = [](const std::string& words, const std::string& tar) {
    expect_refused(words, [&] { read_tar(span_of(tar)); });
  };
  const std::string file = wire::record("a", "abc");
  refused("ends within a header", file);
  refused("stands in it twice", file + file + wire::end_of_tar());
  refused("neither a file nor a folder", wire::record("link", "", '2'));
  refused("ends within a file", wire::record("a", std::string(600, 'x')).substr(0, 1000));
  std::string spoilt = file;
  spoilt[3] = 'b';
  refused("checksum", spoilt + wire::end_of_tar());
}

// For changed and for truncated bytes the readers report an error or read other values. They never
// read outside the buffer, which the sanitizers would detect.
TEST(Readers, DamagedBytes) {
  const std::string whole = archive(), packed = wire::gzip(whole), of_model = model();
  const std::function<void(const std::string&)> readers[] = {
      [](const std::string& bytes) { read_tensor(span_of(bytes)); },
      [](const std::string& bytes) { read_nodes(span_of(bytes)); },
      [](const std::string& bytes) { read_node_tests(read_tar(span_of(bytes))); },
      [](const std::string& bytes) { gunzip(span_of(bytes), 1 << 20); },
  };
  const std::string* const right[] = {&kTensor, &of_model, &whole, &packed};
  std::mt19937 random(1);
  int refused = 0;
  const auto read = [&](int reader, const std::string& bytes) {
    try {
      readers[reader](bytes);
    } catch (const rapt::Error& error) {
      ++refused;
      EXPECT_GT(std::string(error.what()).size(), 20u);
    }
  };
  for (int reader = 0; reader < 4; ++reader) {
    const std::string& bytes = *right[reader];
    for (int i = 0; i < 2000; ++i) {
      std::string damaged = bytes;
      for (int n = 0; n < 1 + i % 3; ++n)
        damaged[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      read(reader, damaged);
      read(reader, bytes.substr(0, random() % bytes.size()));
    }
  }
  EXPECT_GT(refused, 8000);  // nearly all truncated files are detected
}

// If the archive lost tests, the runner would still report that all of the rest pass.
TEST(Archive, HoldsAllTests) {
  const char* folder = std::getenv("RAPT_SHARED_DATA");
  const std::string path = std::string(folder ? folder : ".") + "/onnx_node_tests.tar.gz";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "there is no " << path;
  std::map<std::string, int> counts;
  for (const NodeTest& test : read_node_tests(read_tar_gz(path))) ++counts[test.node.op_type];
  EXPECT_EQ(counts, (std::map<std::string, int>{{"Attention", 76},
                                                {"FlexAttention", 11},
                                                {"LinearAttention", 14},
                                                {"LogSoftmax", 7},
                                                {"RotaryEmbedding", 8},
                                                {"Softmax", 7},
                                                {"TensorScatter", 3}}));
}

TEST(PassRule, IsThatOfTheSuite) {
  const auto differs = [](std::initializer_list<float> got, std::initializer_list<float> wanted) {
    const auto tensor = [](std::initializer_list<float> values) {
      Tensor t(rapt::DType::f32, {static_cast<int64_t>(values.size())});
      std::copy(values.begin(), values.end(), t.values<float>().begin());
      return t;
    };
    return difference(tensor(got), tensor(wanted)).has_value();
  };
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = NAN;
  EXPECT_FALSE(differs({1000.9f, 0.9e-7f}, {1000, 0}));
  EXPECT_TRUE(differs({1001.1f}, {1000}));
  EXPECT_TRUE(differs({2e-7f}, {0}));
  EXPECT_FALSE(differs({nan, inf, -inf}, {nan, inf, -inf}));
  EXPECT_TRUE(differs({nan}, {1}));
  EXPECT_TRUE(differs({1}, {nan}));
  EXPECT_TRUE(differs({1e38f}, {inf}));
  EXPECT_TRUE(differs({inf}, {-inf}));
  EXPECT_TRUE(differs({1, 2}, {1}));
  const Tensor wide(rapt::DType::f64, {0}), narrow(rapt::DType::f32, {0});
  EXPECT_TRUE(difference(wide, narrow).has_value());
  EXPECT_TRUE(difference({}, narrow).has_value());
}

}  // namespace
