// A method rejects by name whatever its scope does not list, and says what is possible; nothing is
// written then.
#include <gtest/gtest.h>

#include "rapt/backward.h"
#include "rapt/catalogue.h"
#include "rapt/method/mean.h"
#include "rapt/score/softcap.h"
#include "rapt/tangents.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

const rapt::Mean kMean;

struct RowsOfMean {
  Tensor query = filled(DType::f32, {2, 4, 3}, 1), key = filled(DType::f32, {2, 4, 3}, 1),
         value = filled(DType::f32, {2, 4, 3}, 1), output = filled(DType::f32, {2, 4, 3}, 7);

  // A call that must not happen.
  void expect_refused(const AttentionOptions& options, const std::vector<std::string>& says,
                      const char* argument) {
    expect_error(ErrorCode::unsupported, says, [&] {
      try {
        std::vector<std::byte> workspace(1 << 16);
        scaled_dot_product_attention(query, key, value, options, {.state = {.output = output}},
                                     workspace);
      } catch (const rapt::Error& error) {
        EXPECT_STREQ(error.argument(), argument);
        throw;
      }
    });
    EXPECT_EQ(get(output, Dims{0, 0, 0}), 7);
    expect_error(ErrorCode::unsupported, says, [&] { rapt::plan(query, key, value, options); });
  }
};

AttentionOptions with_mean() {
  AttentionOptions options;
  options.method = &kMean;
  return options;
}

TEST(MethodScope, MasksAreNamed) {
  RowsOfMean rows;
  const auto window = rapt::make_mask("window(2,0)");
  const auto inverse = rapt::make_mask("!causal"), combined = rapt::make_mask("causal&window(1,0)");
  for (const rapt::Mask* mask : {window.get(), combined.get()}) {
    AttentionOptions options = with_mean();
    options.masks = {mask};
    rows.expect_refused(options, {"method mean", "mask window", "causal, lengths"}, "masks");
  }
  AttentionOptions options = with_mean();
  options.masks = {inverse.get()};
  rows.expect_refused(options, {"mask not", "causal, lengths"}, "masks");
}

TEST(MethodScope, CombinedMasksThatItAcceptsAreAccepted) {
  RowsOfMean rows;
  const int64_t counts[] = {2, 3};
  const auto mask = rapt::make_mask("and(causal, lengths(n))&causal(1)",
                                    [&](std::string_view) { return TensorView(counts, {2}); });
  AttentionOptions options = with_mean();
  options.masks = {mask.get()};
  const AttentionResult got =
      scaled_dot_product_attention(rows.query, rows.key, rows.value, options);
  EXPECT_EQ(get(got.output, Dims{1, 3, 0}), 1);
  // Queries see 1, 2, 2, 2 and 1, 2, 3, 3 keys.
  EXPECT_EQ(rapt::plan(rows.query, rows.key, rows.value, options).allowed_scores, 16);
}

TEST(MethodScope, VariantsAndOptionsAreNamed) {
  RowsOfMean rows;
  const rapt::Softcap softcap{30};
  const rapt::Sigmoid sigmoid;
  const Tensor bias = filled(DType::f32, {4, 4}, 0), table = filled(DType::f32, {3, 3}, 0);
  const auto refused = [&](const char* argument, const std::vector<std::string>& says,
                           const std::function<void(AttentionOptions&)>& change) {
    SCOPED_TRACE(argument);
    AttentionOptions options = with_mean();
    change(options);
    rows.expect_refused(options, says, argument);
  };
  refused("scores", {"score softcap", "none"}, [&](auto& o) { o.scores = {softcap}; });
  refused("normalizer", {"normalizer sigmoid", "softmax"},
          [&](auto& o) { o.normalizer = sigmoid; });
  refused("bias", {"method mean", "a bias"}, [&](auto& o) { o.bias = bias; });
  refused("dropout", {"dropout"}, [&](auto& o) { o.dropout = {0.5, 1}; });
  refused("cosine", {"cosine"}, [&](auto& o) { o.cosine.emplace(); });
  refused("relative", {"relative positions"}, [&](auto& o) { o.relative.key_rows = table; });
  refused("weights", {"returned weights"}, [&](auto& o) { o.weights.emplace(); });
  refused("map", {"map"}, [&](auto& o) { o.map = rapt::MapRequest{1, 1}; });
  refused("top_k", {"top keys"}, [&](auto& o) { o.top_k = 2; });
  refused("entropy", {"entropy"}, [&](auto& o) { o.entropy = true; });
  refused("received", {"received"}, [&](auto& o) { o.received = true; });
}

TEST(MethodScope, PackedSequencesAreRejected) {
  const Tensor rows = filled(DType::f32, {1, 4, 3}, 1);
  const int64_t starts[] = {0, 2, 4};
  AttentionOptions options = with_mean();
  options.packed.query_starts = TensorView(starts, {3});
  expect_error(ErrorCode::unsupported, {"method mean", "packed sequences"},
               [&] { scaled_dot_product_attention(rows, rows, rows, options); });
}

TEST(MethodScope, GradientsThatItLacksAreNamed) {
  RowsOfMean rows;
  const AttentionOptions options = with_mean();
  AttentionResult forward = scaled_dot_product_attention(rows.query, rows.key, rows.value, options);
  rapt::BackwardInputs inputs{.state = forward.state(), .d_output = forward.output};
  rapt::BackwardRequest request;
  request.normalizer_parameters = true;
  expect_error(ErrorCode::unsupported, {"method mean", "normalizer_parameters"}, [&] {
    scaled_dot_product_attention_backward(rows.query, rows.key, rows.value, options, inputs,
                                          request);
  });
  expect_error(ErrorCode::unsupported, {"tangents", "method mean"}, [&] {
    rapt::attention_jvp(rows.query, rows.key, rows.value, options, forward.state(), {});
  });
}

}  // namespace
}  // namespace laws
