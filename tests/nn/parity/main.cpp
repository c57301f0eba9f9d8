#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>

#include "nn/parity/parity.h"
#include "rapt/error.h"
#include "rapt/io/tensor_file.h"

namespace parity {
namespace {

using rapt::DType;
using rapt::Tensor;
using rapt::TensorView;

double element(const TensorView& t, int64_t i) {
  switch (t.dtype) {
    case DType::f32:
      return static_cast<const float*>(t.data)[i];
    case DType::f64:
      return static_cast<const double*>(t.data)[i];
    default:
      throw rapt::Error(rapt::ErrorCode::dtype,
                        std::string("results are f32 or f64, not ") + rapt::name_of(t.dtype));
  }
}

}  // namespace

Given::Given(const std::string& path) {
  const rapt::TensorFile file = rapt::open_tensor_file(path);
  for (const rapt::StoredTensor& stored : file.tensors)
    tensors_.emplace(stored.name, Tensor::copy_of(rapt::load(stored).view()));
}

Tensor Given::tensor(const std::string& name) const {
  const auto at = tensors_.find(name);
  if (at == tensors_.end())
    throw rapt::Error(rapt::ErrorCode::argument, "the file has no tensor " + name);
  return Tensor::copy_of(at->second.view());
}

double Given::number(const std::string& name) const {
  const Tensor t = tensor("n." + name);
  return t.dtype() == DType::i64 ? static_cast<double>(t.values<int64_t>()[0])
                                 : element(t.view(), 0);
}

DType Given::dtype() const { return tensors_.at("x").dtype(); }

void Given::load_one(const std::string& name, rapt::nn::Parameter& p) const {
  const Tensor from = tensor("p." + name);
  if (from.count() != p.value.count() || from.dtype() != p.value.dtype())
    throw rapt::Error(rapt::ErrorCode::shape, "p." + name + " is " + rapt::to_string(from.dims()) +
                                                  "; the layer has " +
                                                  rapt::to_string(p.value.dims()));
  std::memcpy(p.value.data(), from.data(),
              static_cast<size_t>(from.count() * rapt::size_of(from.dtype())));
}

void Given::compare(const std::string& name, const TensorView& found) {
  const Tensor expected = tensor(name);
  const double allowed = expected.dtype() == DType::f64 ? 1e-12 : 1e-5;
  double largest = 0, difference = 0;
  if (expected.count() != found.count() || !found.contiguous()) difference = INFINITY;
  for (int64_t i = 0; i < expected.count() && difference < INFINITY; ++i) {
    const double e = element(expected.view(), i), f = element(found, i);
    largest = std::max(largest, std::abs(e));
    if (!(std::abs(e - f) <= difference)) difference = std::abs(e - f);
  }
  const double relative = largest > 0 ? difference / largest : difference;
  const bool equal = relative <= allowed;
  std::printf("%-28s %.1e of the largest, allowed %.0e%s\n", name.c_str(), relative, allowed,
              equal ? "" : "  DIFFERS");
  failures_ += !equal;
  ++compared_;
}

}  // namespace parity

int main(int count, char** words) {
  const std::map<std::string, parity::Case> cases = {
      {"adam", parity::adam},
      {"conformer_layer", parity::conformer_layer},
      {"conv1d", parity::conv1d},
      {"cross_entropy", parity::cross_entropy},
      {"decoder_layer", parity::decoder_layer},
      {"embedding", parity::embedding},
      {"encoder_decoder", parity::encoder_decoder},
      {"encoder_layer", parity::encoder_layer},
      {"gated", parity::gated},
      {"glu", parity::glu},
      {"gru", parity::gru},
      {"layer_norm", parity::layer_norm},
      {"linear", parity::linear},
      {"linear_cross_entropy", parity::linear_cross_entropy},
      {"mean_squared_error", parity::mean_squared_error},
      {"multi_head_attention", parity::multi_head_attention},
      {"patches", parity::patches},
      {"rms_norm", parity::rms_norm},
  };
  const auto found = count == 3 ? cases.find(words[1]) : cases.end();
  if (found == cases.end()) {
    std::fputs("usage: nn_parity KIND FILE.safetensors\n", stderr);
    return 2;
  }
  try {
    parity::Given given(words[2]);
    found->second(given);
    return given.all_equal() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nn_parity: %s\n", error.what());
    return 2;
  }
}
