// Assembles tests from the files of a folder, and compares results.
#include "node_test.h"

#include <cmath>
#include <cstdio>

#include "rapt/error.h"

namespace rapt::conformance {
namespace {

std::vector<Tensor> read_tensors(const std::map<std::string, Bytes>& files,
                                 const std::string& folder, const char* kind,
                                 const std::vector<std::string>& names) {
  std::vector<Tensor> tensors(names.size());
  int present = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    const std::string path =
        folder + "/test_data_set_0/" + kind + "_" + std::to_string(present++) + ".pb";
    const auto file = files.find(path);
    if (file == files.end()) throw Error(ErrorCode::format, "archive: no " + path);
    tensors[i] = read_tensor(file->second);
  }
  return tensors;
}

// An element of a dense tensor; integers of these tests are exact as doubles.
double element(const TensorView& view, int64_t i) {
  switch (view.dtype) {
    case DType::f32:
      return static_cast<const float*>(view.data)[i];
    case DType::f64:
      return static_cast<const double*>(view.data)[i];
    case DType::f16:
      return static_cast<float>(static_cast<const Float16*>(view.data)[i]);
    case DType::bf16:
      return static_cast<float>(static_cast<const BFloat16*>(view.data)[i]);
    case DType::i64:
      return static_cast<double>(static_cast<const int64_t*>(view.data)[i]);
    case DType::i32:
      return static_cast<const int32_t*>(view.data)[i];
    case DType::u8:
    case DType::boolean:
      return static_cast<const uint8_t*>(view.data)[i];
  }
  throw Error(ErrorCode::dtype, "comparison: unknown dtype");
}

std::string described(const TensorView& view) {
  return std::string(rapt::name_of(view.dtype)) + " " + to_string(view.dims());
}

}  // namespace

std::vector<NodeTest> read_node_tests(const std::map<std::string, Bytes>& files) {
  std::vector<NodeTest> tests;
  for (const auto& [path, bytes] : files) {
    constexpr std::string_view kModel = "/model.onnx";
    if (!path.ends_with(kModel)) continue;
    NodeTest test;
    const std::string folder = path.substr(0, path.size() - kModel.size());
    test.name = folder.substr(folder.rfind('/') + 1);
    if (test.name.find("_expanded") != std::string::npos) continue;
    std::vector<Node> nodes = read_nodes(bytes);
    if (nodes.size() != 1)
      throw Error(ErrorCode::format, test.name + ": expected a model of one node, got " +
                                         std::to_string(nodes.size()));
    test.node = std::move(nodes[0]);
    test.inputs = read_tensors(files, folder, "input", test.node.inputs);
    test.outputs = read_tensors(files, folder, "output", test.node.outputs);
    tests.push_back(std::move(test));
  }
  return tests;
}

std::optional<std::string> difference(const TensorView& got, const TensorView& wanted) {
  if (!got.defined()) return "no output";
  if (described(got) != described(wanted))
    return "got " + described(got) + ", wanted " + described(wanted);
  const Tensor dense = Tensor::copy_of(got);
  for (int64_t i = 0; i < wanted.count(); ++i) {
    const double g = element(dense, i), w = element(wanted, i);
    if (g == w || (std::isnan(g) && std::isnan(w))) continue;
    if (std::abs(g - w) <= 1e-7 + 1e-3 * std::abs(w) && std::isfinite(w)) continue;
    char text[96];
    std::snprintf(text, sizeof text, "element %lld: got %.9g, wanted %.9g",
                  static_cast<long long>(i), g, w);
    return text;
  }
  return {};
}

}  // namespace rapt::conformance
