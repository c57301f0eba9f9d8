#pragma once
// Results that must have the same bits for any number of threads and any executor.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "rapt/context.h"
#include "rapt/nn/parameter.h"
#include "rapt/tensor.h"
#include "support/executors.h"
#include "support/sanitizers.h"

namespace nn_tests {

// compute(context) returns a std::vector<Tensor>; it is called with 1, 2 and 5 threads and with
// several executors; under sanitizers with 1 and 2 threads alone.
template <class Compute>
void expect_same_bits(const Compute& compute) {
  rapt::Context context;
  context.threads = 1;
  const std::vector<rapt::Tensor> expected = compute(context);
  const auto compare = [&](const rapt::Context& other, const char* what) {
    const std::vector<rapt::Tensor> found = compute(other);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(
          std::memcmp(found[i].data(), expected[i].data(),
                      static_cast<size_t>(found[i].count() * rapt::size_of(found[i].dtype()))),
          0)
          << "result " << i << " differs with " << what;
  };
  for (const int threads : {2, 5}) {
    context.threads = threads;
    compare(context, "another number of threads");
    if (RAPT_SANITIZED) return;  // these look at the memory of several threads, not at bits
  }
  check::Random random(1);
  laws::for_each_executor(random, [&](const rapt::Context& c) { compare(c, "another executor"); });
}

// Appends copies of the gradients of a layer.
template <class Layer>
void append_gradients(Layer& layer, std::vector<rapt::Tensor>& to) {
  rapt::nn::visit(layer, [&](const std::string&, rapt::nn::Parameter& p) {
    if (p.learns()) to.push_back(rapt::Tensor::copy_of(p.gradient.view()));
  });
}

}  // namespace nn_tests
