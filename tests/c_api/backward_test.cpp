// Gradients of the C call have the bits of the C++ call: with any options, plain and prepared, with
// and without the caller's workspace. Also the errors after mistakes.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "described_tensors.h"
#include "rapt/rapt.h"
#include "rapt/rapt_c.h"

namespace {

rapt_gradients no_gradients() {
  rapt_gradients gradients = {};
  gradients.size = sizeof gradients;
  return gradients;
}

// Every gradient, and the member of rapt_gradients that points to its tensor.
constexpr struct {
  const char* name;
  Tensor rapt::Gradients::*expected;
  const rapt_tensor* rapt_gradients::*place;
} kGradients[] = {
    {"d_query", &rapt::Gradients::d_query, &rapt_gradients::d_query},
    {"d_key", &rapt::Gradients::d_key, &rapt_gradients::d_key},
    {"d_value", &rapt::Gradients::d_value, &rapt_gradients::d_value},
    {"d_bias", &rapt::Gradients::d_bias, &rapt_gradients::d_bias},
    {"d_scale", &rapt::Gradients::d_scale, &rapt_gradients::d_scale},
    {"d_score_parameters", &rapt::Gradients::d_score_parameters,
     &rapt_gradients::d_score_parameters},
    {"d_key_rows", &rapt::Gradients::d_key_rows, &rapt_gradients::d_key_rows},
    {"d_query_rows", &rapt::Gradients::d_query_rows, &rapt_gradients::d_query_rows},
    {"d_value_rows", &rapt::Gradients::d_value_rows, &rapt_gradients::d_value_rows},
    {"d_content_bias", &rapt::Gradients::d_content_bias, &rapt_gradients::d_content_bias},
    {"d_position_bias", &rapt::Gradients::d_position_bias, &rapt_gradients::d_position_bias},
};

// Makes the C++ and the C calls, and compares all gradients and the workspace size.
void compare(const TensorView& query, const TensorView& key, const TensorView& value,
             const rapt::AttentionOptions& cpp_options, const rapt_options& c_options,
             const rapt::BackwardInputs& cpp_inputs, const rapt::BackwardRequest& request) {
  const rapt::Gradients expected = rapt::scaled_dot_product_attention_backward(
      query, key, value, cpp_options, cpp_inputs, request);
  const size_t expected_bytes =
      rapt::backward_workspace_bytes(query, key, value, cpp_options, request);

  const rapt_tensor q = c_view(query), k = c_view(key), v = c_view(value);
  const rapt_tensor output = c_view(cpp_inputs.state.output);
  const rapt_tensor statistic = c_view(cpp_inputs.state.statistic);
  const rapt_tensor d_output = c_view(cpp_inputs.d_output);
  const rapt_tensor d_statistic = c_view(cpp_inputs.d_statistic);
  const rapt_tensor d_weights = c_view(cpp_inputs.d_weights);
  rapt_backward_inputs inputs = {};
  inputs.size = sizeof inputs;
  inputs.output = &output;
  inputs.statistic = &statistic;
  inputs.d_output = &d_output;
  if (cpp_inputs.d_statistic.defined()) inputs.d_statistic = &d_statistic;
  if (cpp_inputs.d_weights.defined()) inputs.d_weights = &d_weights;

  rapt_prepared* made = nullptr;
  ASSERT_EQ(rapt_prepare(&c_options, nullptr, &made), RAPT_OK) << rapt_last_error();
  const std::unique_ptr<rapt_prepared, void (*)(rapt_prepared*)> prepared(made,
                                                                          rapt_prepared_destroy);
  for (const bool is_prepared : {false, true})
    for (const bool own_workspace : {true, false}) {
      std::deque<Tensor> tensors;
      std::deque<rapt_tensor> places;
      rapt_gradients gradients = no_gradients();
      gradients.passes = request.passes == rapt::BackwardPasses::two ? RAPT_BACKWARD_TWO_PASSES
                                                                     : RAPT_BACKWARD_ONE_PASS;
      for (const auto& gradient : kGradients) {
        const Tensor& like = expected.*gradient.expected;
        if (!like.defined()) continue;
        Tensor& tensor = tensors.emplace_back(like.dtype(), like.dims());
        std::memset(tensor.data(), 0x5A,
                    static_cast<size_t>(like.count() * rapt::size_of(like.dtype())));
        gradients.*gradient.place = &places.emplace_back(c_view(tensor));
      }
      size_t bytes = 0;
      ASSERT_EQ(
          is_prepared
              ? rapt_prepared_backward_workspace_bytes(made, &q, &k, &v, &gradients, &bytes)
              : rapt_backward_workspace_bytes(&q, &k, &v, &c_options, &gradients, nullptr, &bytes),
          RAPT_OK)
          << rapt_last_error();
      EXPECT_EQ(bytes, expected_bytes);
      std::vector<std::byte> workspace(own_workspace ? bytes : 0);
      void* const scratch = own_workspace ? workspace.data() : nullptr;
      ASSERT_EQ(is_prepared ? rapt_prepared_backward(made, &q, &k, &v, &inputs, &gradients, scratch,
                                                     workspace.size())
                            : rapt_attention_backward(&q, &k, &v, &c_options, &inputs, &gradients,
                                                      scratch, workspace.size(), nullptr),
                RAPT_OK)
          << rapt_last_error();
      size_t i = 0;
      for (const auto& gradient : kGradients)
        if ((expected.*gradient.expected).defined())
          expect_same_bits(tensors[i++], expected.*gradient.expected, gradient.name);
    }
}

class BackwardInC : public testing::TestWithParam<DType> {
 protected:
  bool is_16_bit() const { return GetParam() == DType::bf16 || GetParam() == DType::f16; }
  DType wide() const { return GetParam() == DType::f64 ? DType::f64 : DType::f32; }

  // Runs the forward call and returns its state, kept until the test ends, with output gradients.
  rapt::BackwardInputs inputs_of(const rapt::AttentionOptions& options) {
    forward_ = rapt::scaled_dot_product_attention(query_, key_, value_, options);
    d_output_ = numbers(forward_.output.dtype(), forward_.output.dims(), 11);
    return {forward_.state(), d_output_, {}, {}};
  }

  const Tensor query_ = numbers(GetParam(), {2, 4, 70, 24}, 1);
  const Tensor key_ = numbers(GetParam(), {2, 2, 133, 24}, 2);
  const Tensor value_ = numbers(GetParam(), {2, 2, 133, 17}, 3);
  rapt::AttentionResult forward_;
  Tensor d_output_, d_statistic_, d_weights_;
};
INSTANTIATE_TEST_SUITE_P(DTypes, BackwardInC,
                         testing::Values(DType::f32, DType::f64, DType::bf16, DType::f16),
                         [](const auto& dtype) { return rapt::name_of(dtype.param); });

TEST_P(BackwardInC, Plain) { compare(query_, key_, value_, {}, no_options(), inputs_of({}), {}); }

TEST_P(BackwardInC, SomeGradientsInF32InTwoPasses) {
  rapt::BackwardRequest request;
  request.dtype = wide();
  request.passes = rapt::BackwardPasses::two;
  const rapt::BackwardInputs inputs = inputs_of({});
  compare(query_, key_, value_, {}, no_options(), inputs, request);
  request.query = false;
  compare(query_, key_, value_, {}, no_options(), inputs, request);
  request.key = false;
  compare(query_, key_, value_, {}, no_options(), inputs, request);
}

TEST_P(BackwardInC, BiasScaleScoresMasksLseAndWeights) {
  const double scale = -0.3;
  const Tensor bias = numbers(is_16_bit() ? DType::f32 : GetParam(), {4, 1, 133}, 5);
  const rapt::Causal causal(rapt::Anchor::bottom_right);
  const rapt::Softcap softcap(0.7), narrower(0.4);
  const int64_t rows[] = {69, 3, 0}, heads[] = {7, 0};
  rapt::AttentionOptions cpp_options;
  cpp_options.scale = scale;
  cpp_options.masks = {&causal};
  cpp_options.bias = bias;
  cpp_options.scores = {softcap, narrower};
  cpp_options.weights = rapt::WeightsRequest{0, rapt::kToEnd, heads, rows};

  const rapt_tensor b = c_view(bias);
  const rapt_variant c_causal = {sizeof c_causal, "causal(bottom-right)", 0, nullptr};
  const rapt_variant* c_masks[] = {&c_causal};
  const rapt_variant c_softcap = {sizeof c_softcap, "softcap(0.7)", 0, nullptr};
  const rapt_variant c_narrower = {sizeof c_narrower, "softcap(0.4)", 0, nullptr};
  const rapt_variant* c_scores[] = {&c_softcap, &c_narrower};
  const rapt_weights_request weights = {sizeof weights,     0, 0, 2, heads, 3, rows,
                                        RAPT_STAGE_WEIGHTS, 0};
  rapt_options c_options = no_options();
  c_options.scale = &scale;
  c_options.mask_count = 1;
  c_options.masks = c_masks;
  c_options.bias = &b;
  c_options.score_count = 2;
  c_options.scores = c_scores;
  c_options.weights = &weights;

  rapt::BackwardInputs inputs = inputs_of(cpp_options);
  d_statistic_ = numbers(wide(), forward_.statistic.dims(), 12);
  d_weights_ = numbers(wide(), forward_.weights.dims(), 13);
  inputs.d_statistic = d_statistic_;
  inputs.d_weights = d_weights_;
  rapt::BackwardRequest request;
  request.bias = request.scale = request.score_parameters = true;
  compare(query_, key_, value_, cpp_options, c_options, inputs, request);
}

TEST_P(BackwardInC, PackedSequences) {
  const Tensor query_starts = integers({0, 20, 20, 70}), key_starts = integers({0, 50, 51, 133});
  rapt::AttentionOptions cpp_options;
  cpp_options.packed = {query_starts, key_starts};
  const rapt_tensor qs = c_view(query_starts), ks = c_view(key_starts);
  rapt_options c_options = no_options();
  c_options.query_starts = &qs;
  c_options.key_starts = &ks;
  compare(query_, key_, value_, cpp_options, c_options, inputs_of(cpp_options), {});
}

TEST_P(BackwardInC, RelativePositions) {
  const Tensor key_rows = numbers(GetParam(), {4, 9, 24}, 21);
  const Tensor query_rows = numbers(GetParam(), {9, 24}, 22);
  const Tensor value_rows = numbers(GetParam(), {2, 1, 9, 17}, 23);
  const Tensor content_bias = numbers(GetParam(), {24}, 24);
  const Tensor position_bias = numbers(GetParam(), {4, 24}, 25);
  rapt::AttentionOptions cpp_options;
  cpp_options.relative.key_rows = key_rows;
  cpp_options.relative.query_rows = query_rows;
  cpp_options.relative.value_rows = value_rows;
  cpp_options.relative.content_bias = content_bias;
  cpp_options.relative.position_bias = position_bias;
  const rapt_tensor k = c_view(key_rows), q = c_view(query_rows), v = c_view(value_rows);
  const rapt_tensor c = c_view(content_bias), p = c_view(position_bias);
  const rapt_named_tensor tensors[] = {{"k", &k}, {"q", &q}, {"v", &v}, {"c", &c}, {"p", &p}};
  const rapt_variant relative = {
      sizeof relative,
      "relative(key_rows=k, query_rows=q, value_rows=v, content_bias=c, position_bias=p)", 5,
      tensors};
  rapt_options c_options = no_options();
  c_options.relative = &relative;
  rapt::BackwardRequest request;
  request.relative = true;
  compare(query_, key_, value_, cpp_options, c_options, inputs_of(cpp_options), request);
}

constexpr float kUntouched = 77;  // what the gradients hold before a call

// A valid call; each test spoils one part of it.
struct Spoiled {
  int64_t query_shape[3] = {2, 5, 8}, key_shape[3] = {2, 6, 8}, value_shape[3] = {2, 6, 4};
  int64_t output_shape[3] = {2, 5, 4}, statistic_shape[2] = {2, 5};
  float query_data[80] = {}, key_data[96] = {}, value_data[48] = {};
  float output_data[40] = {}, statistic_data[10] = {}, d_output_data[40] = {};
  float d_query_data[80], d_key_data[96], d_value_data[48];
  double d_scale_data[1] = {kUntouched};
  rapt_tensor query = floats(query_data, query_shape, 3), key = floats(key_data, key_shape, 3);
  rapt_tensor value = floats(value_data, value_shape, 3);
  rapt_tensor output = floats(output_data, output_shape, 3);
  rapt_tensor statistic = floats(statistic_data, statistic_shape, 2);
  rapt_tensor d_output = floats(d_output_data, output_shape, 3);
  rapt_tensor d_query = floats(d_query_data, query_shape, 3);
  rapt_tensor d_key = floats(d_key_data, key_shape, 3);
  rapt_tensor d_value = floats(d_value_data, value_shape, 3);
  rapt_tensor d_scale = {sizeof d_scale, d_scale_data, RAPT_F64, RAPT_CPU, 0, 0, nullptr, nullptr};
  rapt_backward_inputs inputs = {sizeof inputs, &output, &statistic, &d_output, nullptr, nullptr};
  rapt_gradients gradients = no_gradients();
  rapt_context context = {};
  std::vector<std::byte> workspace;

  Spoiled() {
    const rapt_results results = {sizeof results, &output, &statistic, nullptr, nullptr,
                                  nullptr,        nullptr, nullptr,    nullptr};
    EXPECT_EQ(rapt_attention_forward(&query, &key, &value, nullptr, &results, nullptr, 0, nullptr),
              RAPT_OK);
    gradients.d_query = &d_query;
    gradients.d_key = &d_key;
    gradients.d_value = &d_value;
    gradients.d_scale = &d_scale;
    context.size = sizeof context;
    for (float& x : d_query_data) x = kUntouched;
    for (float& x : d_key_data) x = kUntouched;
    for (float& x : d_value_data) x = kUntouched;
  }
  Spoiled(const Spoiled&) = delete;

  static rapt_tensor floats(float* data, const int64_t* shape, int rank) {
    return {sizeof(rapt_tensor), data, RAPT_F32, RAPT_CPU, 0, rank, shape, nullptr};
  }
  rapt_status backward() {
    return rapt_attention_backward(&query, &key, &value, nullptr, &inputs, &gradients,
                                   workspace.empty() ? nullptr : workspace.data(), workspace.size(),
                                   &context);
  }
  bool untouched() const {
    for (const float x : d_query_data)
      if (x != kUntouched) return false;
    for (const float x : d_key_data)
      if (x != kUntouched) return false;
    for (const float x : d_value_data)
      if (x != kUntouched) return false;
    return d_scale_data[0] == kUntouched;
  }
};

TEST(BackwardMistakesInC, TheCallThatIsSpoiledBelowIsValid) {
  Spoiled c;
  EXPECT_EQ(c.backward(), RAPT_OK) << rapt_last_error();
  for (const float x : c.d_query_data) EXPECT_NE(x, kUntouched);
  for (const float x : c.d_key_data) EXPECT_NE(x, kUntouched);
  for (const float x : c.d_value_data) EXPECT_NE(x, kUntouched);
  EXPECT_NE(c.d_scale_data[0], kUntouched);
}

TEST(BackwardMistakesInC, Mistakes) {
  const struct {
    rapt_status status;
    const char* words;
    void (*spoil)(Spoiled&);
  } mistakes[] = {
      {RAPT_ERROR_ARGUMENT, "rapt_backward_inputs is 7", [](Spoiled& c) { c.inputs.size = 7; }},
      {RAPT_ERROR_ARGUMENT, "rapt_gradients is 0", [](Spoiled& c) { c.gradients.size = 0; }},
      {RAPT_ERROR_ARGUMENT, "output is a null pointer",
       [](Spoiled& c) { c.inputs.output = nullptr; }},
      {RAPT_ERROR_ARGUMENT, "statistic is a null pointer",
       [](Spoiled& c) { c.inputs.statistic = nullptr; }},
      {RAPT_ERROR_ARGUMENT, "d_output is a null pointer",
       [](Spoiled& c) { c.inputs.d_output = nullptr; }},
      {RAPT_ERROR_ARGUMENT, "passes is 2", [](Spoiled& c) { c.gradients.passes = 2; }},
      {RAPT_ERROR_ARGUMENT, "`reserved` of a rapt_gradients is 1",
       [](Spoiled& c) { c.gradients.reserved = 1; }},
      {RAPT_ERROR_ARGUMENT, "bias", [](Spoiled& c) { c.gradients.d_bias = &c.d_scale; }},
      {RAPT_ERROR_ARGUMENT, "scores",
       [](Spoiled& c) { c.gradients.d_score_parameters = &c.d_scale; }},
      {RAPT_ERROR_ARGUMENT, "relative", [](Spoiled& c) { c.gradients.d_key_rows = &c.d_scale; }},
      {RAPT_ERROR_ARGUMENT, "weights", [](Spoiled& c) { c.inputs.d_weights = &c.key; }},
      {RAPT_ERROR_ARGUMENT, "workspace of 1 ", [](Spoiled& c) { c.workspace.resize(1); }},
      {RAPT_ERROR_ARGUMENT, "read-only", [](Spoiled& c) { c.d_key.read_only = 1; }},
      {RAPT_ERROR_SHAPE, "d_output", [](Spoiled& c) { c.d_output.shape = c.query_shape; }},
      {RAPT_ERROR_SHAPE, "d_value", [](Spoiled& c) { c.d_value.shape = c.key_shape; }},
      {RAPT_ERROR_SHAPE, "output", [](Spoiled& c) { c.output.shape = c.value_shape; }},
      {RAPT_ERROR_DTYPE, "d_output", [](Spoiled& c) { c.d_output.dtype = RAPT_BF16; }},
      {RAPT_ERROR_DTYPE, "d_key", [](Spoiled& c) { c.d_key.dtype = RAPT_BF16; }},
      {RAPT_ERROR_DTYPE, "d_scale", [](Spoiled& c) { c.d_scale.dtype = RAPT_F32; }},
      {RAPT_ERROR_OVERLAP, "overlaps", [](Spoiled& c) { c.d_query.data = c.query.data; }},
      {RAPT_ERROR_OVERLAP, "overlaps", [](Spoiled& c) { c.d_key.data = c.d_query.data; }},
      {RAPT_ERROR_MEMORY_LIMIT, "limit is 1", [](Spoiled& c) { c.context.memory_limit = 1; }},
  };
  for (const auto& mistake : mistakes) {
    SCOPED_TRACE(mistake.words);
    Spoiled c;
    mistake.spoil(c);
    EXPECT_EQ(c.backward(), mistake.status) << rapt_last_error();
    EXPECT_NE(std::string(rapt_last_error()).find(mistake.words), std::string::npos)
        << rapt_last_error();
    EXPECT_TRUE(c.untouched());
  }
}

TEST(BackwardMistakesInC, NullPointers) {
  const auto answers = [](rapt_status got, const char* words) {
    return got == RAPT_ERROR_ARGUMENT &&
           std::string(rapt_last_error()).find(words) != std::string::npos;
  };
  Spoiled c;
  size_t bytes = 0;
  EXPECT_TRUE(answers(rapt_attention_backward(nullptr, &c.key, &c.value, nullptr, &c.inputs,
                                              &c.gradients, nullptr, 0, nullptr),
                      "query is a null pointer"));
  EXPECT_TRUE(answers(rapt_attention_backward(&c.query, &c.key, &c.value, nullptr, nullptr,
                                              &c.gradients, nullptr, 0, nullptr),
                      "rapt_backward_inputs"));
  EXPECT_TRUE(answers(rapt_attention_backward(&c.query, &c.key, &c.value, nullptr, &c.inputs,
                                              nullptr, nullptr, 0, nullptr),
                      "rapt_gradients"));
  EXPECT_TRUE(answers(rapt_attention_backward(&c.query, &c.key, &c.value, nullptr, &c.inputs,
                                              &c.gradients, nullptr, 64, nullptr),
                      "workspace is a null pointer of 64 bytes"));
  EXPECT_TRUE(answers(rapt_backward_workspace_bytes(&c.query, &c.key, &c.value, nullptr,
                                                    &c.gradients, nullptr, nullptr),
                      "workspace_bytes is a null pointer"));
  EXPECT_TRUE(answers(
      rapt_backward_workspace_bytes(&c.query, &c.key, &c.value, nullptr, nullptr, nullptr, &bytes),
      "rapt_gradients"));
  EXPECT_TRUE(answers(rapt_prepared_backward_workspace_bytes(nullptr, &c.query, &c.key, &c.value,
                                                             &c.gradients, &bytes),
                      "prepared is a null pointer"));
  EXPECT_TRUE(answers(rapt_prepared_backward(nullptr, &c.query, &c.key, &c.value, &c.inputs,
                                             &c.gradients, nullptr, 0),
                      "prepared is a null pointer"));
  EXPECT_TRUE(c.untouched());
}

// A caller built against a later version has a larger struct.
TEST(BackwardMistakesInC, LargerStructsAreTakenWhileTheUnknownPartIsZero) {
  Spoiled c;
  struct {
    rapt_gradients known;
    int64_t later;
  } later = {c.gradients, 1};
  later.known.size = sizeof later;
  const auto backward = [&] {
    return rapt_attention_backward(&c.query, &c.key, &c.value, nullptr, &c.inputs, &later.known,
                                   nullptr, 0, nullptr);
  };
  EXPECT_EQ(backward(), RAPT_ERROR_UNSUPPORTED);
  EXPECT_TRUE(c.untouched());
  later.later = 0;
  EXPECT_EQ(backward(), RAPT_OK) << rapt_last_error();
}

// The workspace size needs no data pointers.
TEST(BackwardMistakesInC, TheWorkspaceNeedsNoData) {
  Spoiled c;
  size_t with_data = 0, without = 1;
  ASSERT_EQ(rapt_backward_workspace_bytes(&c.query, &c.key, &c.value, nullptr, &c.gradients,
                                          nullptr, &with_data),
            RAPT_OK)
      << rapt_last_error();
  for (rapt_tensor* t : {&c.query, &c.key, &c.value, &c.d_query, &c.d_key, &c.d_value, &c.d_scale})
    t->data = nullptr;
  ASSERT_EQ(rapt_backward_workspace_bytes(&c.query, &c.key, &c.value, nullptr, &c.gradients,
                                          nullptr, &without),
            RAPT_OK)
      << rapt_last_error();
  EXPECT_EQ(with_data, without);
}

}  // namespace
