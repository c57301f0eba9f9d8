// Gradients of a part of the heads have the bits of the call with all heads, for every combination
// of options that allows a part.
#include <gtest/gtest.h>

#include <cfloat>
#include <numeric>

#include "gradients/valid_gradient_call.h"
#include "rapt/method/mean.h"
#include "rapt/tangents.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;
using rapt::HeadRange;

// The heads that share a requested gradient, along the last leading dimension.
int64_t heads_together(const Forward& f, const BackwardRequest& request) {
  const TensorView output = f.result.output.view();
  const int64_t heads = output.shape[output.rank - 3];
  const auto sharing = [&](const TensorView& input, bool wanted) {
    return !wanted ? 1 : input.rank > 2 ? heads / input.shape[input.rank - 3] : heads;
  };
  return std::lcm(sharing(f.in.query, request.query || request.scale),
                  std::lcm(sharing(f.in.key, request.key), sharing(f.in.value, request.value)));
}

// The matrices of a tensor, of which `all` heads have `dims()[rank - 3]`, that these heads share.
Tensor part_of(const Tensor& tensor, const HeadRange& heads, int64_t all) {
  const TensorView view = tensor.view();
  const int dim = view.rank - 3;
  if (dim < 0) return Tensor::copy_of(view);
  const int64_t n = view.shape[dim];
  return Tensor::copy_of(
      view.slice(dim, heads.first * n / all, (heads.first + heads.count) * n / all));
}

bool has_heads(Descriptor& d) {
  return !d.leading.empty() && d.leading.back() > 1 && d.method.empty();
}

TEST(HeadRanges, HaveTheBitsOfAllHeads) {
  int parts = 0;
  for_gradient_problems(150, has_heads, [&](const Case& c, const GradientCase& g, Random& random) {
    Forward f(c);
    BackwardRequest request = g.request();
    request.bias = request.relative = false;
    const rapt::Gradients whole = backward(f, g.inputs(f.result.state()), request);
    const int64_t all = f.result.output.dims()[f.result.output.dims().size() - 3];
    const int64_t together = heads_together(f, request);
    if (all == together) return;
    ++parts;
    const int64_t first = random.between(0, all / together - 1) * together;
    request.heads = {first, random.between(1, (all - first) / together) * together};
    const Tensor d_output = part_of(g.d_output, request.heads, all);
    BackwardInputs inputs = g.inputs(f.result.state());
    inputs.d_output = d_output;
    for_each_executor(random, [&](const Context& context) {
      const rapt::Gradients part = backward(f, inputs, request, context);
      EXPECT_TRUE(same_bits(part.d_query, part_of(whole.d_query, request.heads, all)));
      EXPECT_TRUE(same_bits(part.d_key, part_of(whole.d_key, request.heads, all)));
      EXPECT_TRUE(same_bits(part.d_value, part_of(whole.d_value, request.heads, all)));
    });
  });
  EXPECT_TRUE(HasFailure() || parts > problem_count(150) / 5) << parts;
}

// Gradients of numbers that heads share are sums over the heads of the range.
TEST(HeadRanges, AddUpSharedNumbers) {
  Random random(base_seed());
  ValidGradientCall call;  // 4 heads, 2 of keys
  for (Tensor* t : {&call.q, &call.k, &call.v, &call.d})
    *t = random_normal(random, DType::f32, Dims(t->dims().begin(), t->dims().end()));
  call.query = call.q, call.key = call.k, call.value = call.v;
  const rapt::Softcap softcap{5};
  call.options.scores = {softcap};
  call.attend();
  call.request.scale = call.request.score_parameters = true;
  const auto gradients = [&](const HeadRange& heads) {
    const Tensor d_output = part_of(call.d, heads, 4);
    BackwardInputs inputs = call.inputs;
    inputs.d_output = d_output;
    BackwardRequest request = call.request;
    request.heads = heads;
    return scaled_dot_product_attention_backward(call.query, call.key, call.value, call.options,
                                                 inputs, request);
  };
  const rapt::Gradients whole = gradients({0, 4}), low = gradients({0, 2}),
                        high = gradients({2, 2});
  call.request.key = call.request.value = false;  // which heads share
  std::vector<rapt::Gradients> of_heads;
  for (int64_t head = 0; head < 4; ++head) of_heads.push_back(gradients({head, 1}));
  for (const auto tensor : {&rapt::Gradients::d_scale, &rapt::Gradients::d_score_parameters}) {
    const auto number = [&](const rapt::Gradients& g) { return (g.*tensor).values<double>()[0]; };
    double sizes = 0;
    for (const rapt::Gradients& g : of_heads) sizes += std::abs(number(g));
    EXPECT_NE(number(high), 0);
    // The numbers of 4 heads in 2 batches are added in two orders of 7 additions each.
    EXPECT_NEAR(number(low) + number(high), number(whole), 7 * DBL_EPSILON * sizes);
  }
}

TEST(HeadRanges, RejectsWhatIsNoPartOfTheHeads) {
  const auto expect_rejected = [](ErrorCode code, const std::vector<std::string>& fragments,
                                  const HeadRange& heads, bool bias = false) {
    ValidGradientCall call;
    call.options.bias = call.b;
    call.attend();
    call.request.heads = heads;
    call.request.bias = bias;
    call.outputs = outputs_of(call.memory);
    expect_error(code, fragments, [&] { call.run(); });
    EXPECT_TRUE(call.untouched());
  };
  expect_rejected(ErrorCode::argument, {"2 heads from head -1", "4"}, {-1, 2});
  expect_rejected(ErrorCode::argument, {"0 heads from head 2"}, {2, 0});
  expect_rejected(ErrorCode::argument, {"3 heads from head 2"}, {2, 3});
  expect_rejected(ErrorCode::argument, {"heads"}, {INT64_MAX, 1});
  expect_rejected(ErrorCode::argument, {"heads"}, {1, INT64_MAX});
  expect_rejected(ErrorCode::unsupported, {"share", "multiples of 2"}, {1, 2});
  expect_rejected(ErrorCode::unsupported, {"share", "multiples of 2"}, {0, 3});
  expect_rejected(ErrorCode::unsupported, {"gradient of a bias"}, {0, 2}, true);
  expect_rejected(ErrorCode::shape, {"d_output", "[2, 2, 5, 3]"}, {0, 2});
}

TEST(HeadRanges, AreRejectedBesideMethodsTablesAndTangents) {
  ValidGradientCall call;
  call.attend();
  call.request.heads = {0, 2};
  expect_error(ErrorCode::unsupported, {"tangents of a part of the heads"}, [&] {
    attention_backward_jvp(call.query, call.key, call.value, call.options, call.inputs, {}, {},
                           call.request);
  });
  const auto compute = [&] {
    scaled_dot_product_attention_backward(call.query, call.key, call.value, call.options,
                                          call.inputs, call.request);
  };
  const rapt::Mean mean;
  call.options.method = &mean;
  expect_error(ErrorCode::unsupported, {"part of the heads", "a method"}, compute);
  call.options.method = nullptr;
  const Tensor table = filled(DType::f32, {11, 8}, 1);
  call.options.relative.key_rows = table;
  call.request.relative = true;
  expect_error(ErrorCode::unsupported, {"part of the heads", "relative positions"}, compute);
}

TEST(HeadRanges, MayBeAllHeads) {
  ValidGradientCall call;
  call.options.bias = call.b;
  call.attend();
  call.request.bias = true;
  const auto compute = [&](const TensorView& query, const TensorView& key, const TensorView& value,
                           const BackwardInputs& inputs, const HeadRange& heads) {
    call.request.heads = heads;
    return scaled_dot_product_attention_backward(query, key, value, call.options, inputs,
                                                 call.request);
  };
  const rapt::Gradients none = compute(call.query, call.key, call.value, call.inputs, {});
  const rapt::Gradients all = compute(call.query, call.key, call.value, call.inputs, {0, 4});
  EXPECT_TRUE(same_bits(all.d_query, none.d_query));
  EXPECT_TRUE(same_bits(all.d_bias, none.d_bias));
  // Without leading dimensions there is one head.
  const Tensor q = filled(DType::f32, {5, 8}, 1), k = filled(DType::f32, {7, 8}, 1),
               v = filled(DType::f32, {7, 3}, 1), d = filled(DType::f32, {5, 3}, 1);
  AttentionResult forward = scaled_dot_product_attention(q, k, v, call.options);
  const BackwardInputs inputs{.state = forward.state(), .d_output = d};
  EXPECT_TRUE(
      same_bits(compute(q, k, v, inputs, {0, 1}).d_query, compute(q, k, v, inputs, {}).d_query));
  expect_error(ErrorCode::argument, {"2 heads from head 0", "of the 1"}, [&] {
    compute(q, k, v, inputs, {0, 2});
  });
}

}  // namespace
}  // namespace laws
