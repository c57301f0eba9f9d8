// Hashes all bits that calls return, to test changes that must not change any: run it in the build
// before and in the build after, on every instruction set, and compare the outputs.
//
//   result_hash draw 5000 > problems       random problems over all axes, one descriptor per line
//   RAPT_ISA=avx2 result_hash < problems   one hash per problem: output, statistic, captures and
//                                          all gradients; for a rejected call its error code
//
// NaN counts as one value: its sign and payload are not part of the contract.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "check/compare/comparison.h"
#include "check/compare/gradient_comparison.h"
#include "check/draw/law_grid.h"

namespace {

using rapt::DType;
using rapt::Tensor;

// FNV-1a, 64 bits.
class Hash {
 public:
  void add(uint64_t bits) {
    for (int i = 0; i < 8; ++i, bits >>= 8) value_ = (value_ ^ (bits & 255)) * 1099511628211u;
  }
  void add(const Tensor& tensor) {
    add(tensor.defined());
    if (!tensor.defined()) return;
    add(static_cast<uint64_t>(tensor.dtype()));
    for (const int64_t length : tensor.dims()) add(static_cast<uint64_t>(length));
    const auto* bytes = static_cast<const std::byte*>(tensor.view().data);
    const int64_t size = rapt::size_of(tensor.dtype()), count = tensor.view().count();
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = 0;
      std::memcpy(&bits, bytes + i * size, static_cast<size_t>(size));
      add(is_nan(tensor.dtype(), bits) ? ~uint64_t{0} : bits);
    }
  }
  uint64_t value() const { return value_; }

 private:
  static bool is_nan(DType dtype, uint64_t bits) {
    switch (dtype) {
      case DType::f32:
        return (bits & 0x7fffffff) > 0x7f800000;
      case DType::f64:
        return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
      case DType::bf16:
        return (bits & 0x7fff) > 0x7f80;
      case DType::f16:
        return (bits & 0x7fff) > 0x7c00;
      default:
        return false;
    }
  }

  uint64_t value_ = 14695981039346656037u;
};

uint64_t hash_of(const std::string& line) {
  const check::Case c(check::parse_descriptor(line));
  Hash hash;
  try {
    const rapt::AttentionResult got = check::run(c);
    for (const Tensor* tensor : {&got.output, &got.statistic, &got.weights, &got.map, &got.top_keys,
                                 &got.top_weights, &got.entropy, &got.received})
      hash.add(*tensor);
  } catch (const rapt::Error& error) {
    hash.add(1000 + static_cast<uint64_t>(error.code()));
  }
  try {
    const check::GradientCase g(c);
    const rapt::Gradients got = check::run_backward(g);
    for (const Tensor* tensor :
         {&got.d_query, &got.d_key, &got.d_value, &got.d_bias, &got.d_scale,
          &got.d_score_parameters, &got.d_normalizer_parameters, &got.d_key_rows, &got.d_query_rows,
          &got.d_value_rows, &got.d_content_bias, &got.d_position_bias})
      hash.add(*tensor);
  } catch (const rapt::Error& error) {
    hash.add(2000 + static_cast<uint64_t>(error.code()));
  }
  return hash.value();
}

}  // namespace

int main(int count, char** words) {
  if (count == 3 && std::string(words[1]) == "draw") {
    check::LawGrid grid(1);
    for (long left = std::atol(words[2]); left > 0; --left)
      std::puts(to_string(grid.next()).c_str());
    return 0;
  }
  if (count != 1) {
    std::fputs("usage: result_hash draw N | result_hash < DESCRIPTORS\n", stderr);
    return 2;
  }
  for (std::string line; std::getline(std::cin, line);)
    std::printf("%016llx %s\n", static_cast<unsigned long long>(hash_of(line)), line.c_str());
}
