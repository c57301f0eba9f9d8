// What a call hands to a method: checked tensors, the caller's memory, heads that share gradients;
// and methods as text.
#include "method/method_call.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/tensor_memory.h"
#include "method/shared_heads.h"
#include "rapt/catalogue.h"
#include "rapt/method/mean.h"
#include "rapt/rapt_c.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

// A method that computes nothing but 1, reads `read` and writes `state`.
class Ones final : public rapt::Method {
 public:
  int64_t count = 1;
  TensorView read, state;
  std::function<void(const rapt::MethodCall&)> visit;

  static const rapt::Declaration kDeclaration;
  static const rapt::MethodScope kScope;
  const rapt::Declaration& declaration() const noexcept override { return kDeclaration; }
  const rapt::MethodScope& scope() const noexcept override { return kScope; }
  void check(const rapt::MethodCall&) const override {
    if (state.defined() && state.rank != 1)
      throw rapt::Error(ErrorCode::shape, "method ones: state has another rank than 1");
  }
  rapt::MethodPlan plan(const rapt::MethodCall&) const override {
    return {.kernel = "ones", .workspace_bytes = 640, .threads = 1, .pairs = 12};
  }
  void forward(const rapt::MethodCall& call, const rapt::MethodResults& results,
               std::byte* scratch) const override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch) % 64, 0u);
    std::fill_n(scratch, 640, std::byte{1});
    if (visit) visit(call);
    for (int64_t head = 0; head < call.problem.heads; ++head) {
      const TensorView output = matrix_of(results.outputs.output, call.problem, head,
                                          call.problem.q_len, call.problem.value_dim);
      for_each_index(output.dims(), [&](auto at) { set(output, at, 1); });
    }
    if (state.defined()) set(state, Dims{0}, 5);
  }
  rapt::MethodPlan plan_backward(const rapt::MethodCall& call,
                                 const rapt::WantedGradients&) const override {
    return plan(call);
  }
  void backward(const rapt::MethodCall&, const rapt::MethodGradients&,
                std::byte* scratch) const override {
    std::fill_n(scratch, 640, std::byte{1});
  }
};

constexpr rapt::Parameter kParametersOfOnes[] = {
    rapt::parameter<Ones, &Ones::count>("count", "a number", {1, 3}),
    rapt::parameter<Ones, &Ones::read>("read", "a tensor that is read"),
    rapt::written_parameter<Ones, &Ones::state>("state", "a tensor that is written")};
const rapt::Declaration Ones::kDeclaration = {"ones", "ones", "this test", kParametersOfOnes};
constexpr const char* kMasksOfOnes[] = {"causal"};
const rapt::MethodScope Ones::kScope = {.masks = kMasksOfOnes,
                                        .f64 = false,
                                        .shared_keys = false,
                                        .shifted_causal = false,
                                        .causal_lengths_differ = false};

struct RowsOfOnes {
  Tensor query = filled(DType::f32, {2, 4, 3}, 2), key = filled(DType::f32, {2, 4, 3}, 2),
         value = filled(DType::f32, {1, 4, 5}, 2);

  AttentionResult attend(const Ones& ones, const AttentionOptions& with = {}) const {
    AttentionOptions options = with;
    options.method = &ones;
    return scaled_dot_product_attention(query, key, value, options);
  }
  void expect_refused(const Ones& ones, ErrorCode code, const std::vector<std::string>& says,
                      const AttentionOptions& with = {}) const {
    expect_error(code, says, [&] { attend(ones, with); });
  }
};

TEST(MethodCall, HandsOverMatricesAndWritesTensors) {
  const RowsOfOnes rows;
  Ones ones;
  Tensor state = filled(DType::f32, {1}, 0);
  ones.state = state;
  int calls = 0;
  ones.visit = [&](const rapt::MethodCall& call) {
    ++calls;
    EXPECT_FALSE(call.causal());
    EXPECT_EQ(call.query(1).data, static_cast<const float*>(rows.query.data()) + 12);
    EXPECT_EQ(call.value(1).data, rows.value.data());
    EXPECT_EQ(call.value(1).shape[1], 5);
    EXPECT_TRUE(call.query(0).read_only && call.key(0).read_only && call.value(0).read_only);
    EXPECT_EQ(call.reach(0).end(0), 4);
  };
  const AttentionResult got = rows.attend(ones);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(get(got.output, Dims{1, 3, 4}), 1);
  EXPECT_EQ(get(state, Dims{0}), 5);
}

TEST(MethodCall, PlansWithoutElements) {
  const RowsOfOnes rows;
  Ones ones;
  const TensorView query(static_cast<float*>(nullptr), {2, 4, 3});
  AttentionOptions options;
  options.method = &ones;
  const rapt::Plan plan = rapt::plan(query, query, query, options);
  EXPECT_STREQ(plan.method, "ones");
  EXPECT_STREQ(plan.kernel, "ones");
  EXPECT_EQ(plan.workspace_bytes, 640u + 63);  // at any alignment
  EXPECT_EQ(plan.method_pairs, 12);
  EXPECT_EQ(plan.allowed_scores, 32);
  EXPECT_EQ(plan.tiles_computed + plan.tiles_partial + plan.tiles_skipped, 0);
  EXPECT_STREQ(rapt::plan(query, query, query).method, "");
}

TEST(MethodCall, ChecksParametersTensorsAndScope) {
  const RowsOfOnes rows;
  Ones ones;
  ones.count = 4;
  rows.expect_refused(ones, ErrorCode::argument, {"ones: count = 4", "1 to 3"});
  ones.count = 1;
  Tensor matrix = filled(DType::f32, {2, 2}, 0);
  ones.state = matrix;
  rows.expect_refused(ones, ErrorCode::shape, {"state has another rank"});
  ones.state = TensorView(static_cast<float*>(nullptr), {3});
  rows.expect_refused(ones, ErrorCode::argument, {"state", "null"});
  ones.state = TensorView(static_cast<const float*>(rows.query.data()), {3});
  rows.expect_refused(ones, ErrorCode::argument, {"state", "read-only"});
  ones.state = TensorView(const_cast<float*>(static_cast<const float*>(rows.query.data())), {3});
  rows.expect_refused(ones, ErrorCode::overlap, {"state", "query"});
  Tensor shared = filled(DType::f32, {4}, 0);
  ones.state = shared.view().slice(0, 0, 3);
  ones.read = shared.view().slice(0, 2, 4);
  rows.expect_refused(ones, ErrorCode::overlap, {"state", "read"});
}

TEST(MethodCall, ChecksDtypesHeadsAndCausalMasks) {
  RowsOfOnes rows;
  const Ones ones;
  for (const char* spec : {"causal(1)", "causal(bottom-right,-1)"}) {
    const auto mask = rapt::make_mask(spec);
    AttentionOptions options;
    options.masks = {mask.get()};
    rows.expect_refused(ones, ErrorCode::unsupported, {"causal mask with an offset"}, options);
  }
  const auto causal = rapt::make_mask("causal(bottom-right)");
  AttentionOptions options;
  options.masks = {causal.get()};
  EXPECT_NO_THROW(rows.attend(ones, options));
  rows.query = filled(DType::f32, {2, 3, 3}, 2);
  const auto top_left = rapt::make_mask("causal");
  options.masks = {top_left.get()};
  rows.expect_refused(ones, ErrorCode::unsupported, {"3 queries and 4 keys"}, options);
  rows.key = filled(DType::f32, {1, 4, 3}, 2);
  rows.expect_refused(ones, ErrorCode::unsupported, {"heads that share keys"});
  rows.query = filled(DType::f64, {2, 4, 3}, 2), rows.key = filled(DType::f64, {2, 4, 3}, 2);
  rows.value = filled(DType::f64, {1, 4, 5}, 2);
  rows.expect_refused(ones, ErrorCode::unsupported, {"f64", "f32, bf16, f16"});
}

// Every head is in one component; of the heads that share a matrix one is the first, one the last,
// and all have one slot.
TEST(SharedHeads, ComponentsSumInTheOrderOfHeads) {
  const Ones ones;
  for (const auto& [key, value, components] : {std::tuple(Dims{2, 3, 2}, Dims{2, 3, 4}, 12),
                                               {Dims{1, 1, 2}, Dims{2, 3, 4}, 2},
                                               {Dims{2, 1, 4}, Dims{1, 3, 2}, 2},
                                               {Dims{2, 3, 4}, Dims{2, 3, 4}, 24}}) {
    const auto with = [](Dims dims) {
      dims.insert(dims.end(), {3, 2});
      return filled(DType::f32, dims, 1);
    };
    const Tensor q = with({2, 3, 4}), k = with(key), v = with(value);
    rapt::Mean mean;
    AttentionOptions options;
    options.method = &mean;
    const Context context;
    const TensorView query = q, keys = k, values = v;
    const rapt::CheckedCall checked(query, keys, values, options, context, rapt::Elements::read);
    const rapt::MethodCall call(checked);
    rapt::WantedGradients wanted;
    wanted.query = wanted.key = wanted.value = true;
    const rapt::SharedHeads shared(call, wanted);
    EXPECT_EQ(shared.components(), components);
    std::set<int64_t> heads;
    std::map<const void*, int64_t> slots, components_of;
    for (int64_t c = 0; c < shared.components(); ++c) {
      std::map<const void*, int> firsts, lasts;
      int64_t before = -1;
      for (int64_t nth = 0; nth < shared.heads(); ++nth) {
        const rapt::SharedHead head = shared(c, nth);
        EXPECT_TRUE(heads.insert(head.head).second);
        EXPECT_LT(before, head.head);
        before = head.head;
        const void* const matrix = call.key(head.head).data;
        EXPECT_EQ(components_of.emplace(matrix, c).first->second, c);
        EXPECT_EQ(slots.emplace(matrix, head.key.slot).first->second, head.key.slot);
        EXPECT_LT(head.key.slot, shared.key_slots());
        EXPECT_EQ(head.key.first, firsts[matrix]++ == 0);
        EXPECT_EQ(lasts[matrix], 0);
        lasts[matrix] += head.key.last;
      }
      for (const auto& [matrix, count] : lasts) EXPECT_EQ(count, 1);
    }
    EXPECT_EQ(heads.size(), 24u);
  }
}

TEST(MakeMethod, ReadsAndWritesSpecs) {
  for (const char* spec : {"mean", " mean() "}) {
    const std::unique_ptr<rapt::Method> method = rapt::make_method(spec);
    EXPECT_NE(dynamic_cast<const rapt::Mean*>(method.get()), nullptr);
    EXPECT_EQ(rapt::to_string(*method), "mean");
  }
  expect_error(ErrorCode::unknown_name, {"there is no method \"meen\"", "did you mean mean?"},
               [] { rapt::make_method("meen"); });
  expect_error(ErrorCode::argument, {"method mean", "speed"},
               [] { rapt::make_method("mean(speed=1)"); });
  Ones ones;
  ones.count = 2;
  EXPECT_EQ(rapt::to_string(ones), "ones(2)");
}

TEST(MakeMethod, FromC) {
  float x[6] = {1, 3, 5, 7, 9, 11}, out[6] = {};
  const int64_t shape[] = {3, 2};
  rapt_tensor input = {};
  input.size = sizeof input, input.data = x, input.dtype = RAPT_F32, input.rank = 2;
  input.shape = shape;
  rapt_tensor output = input;
  output.data = out;
  rapt_variant mean = {sizeof mean, "mean", 0, nullptr};
  rapt_options options = {};
  options.size = sizeof options, options.method = &mean;
  rapt_results results = {};
  results.size = sizeof results, results.output = &output;
  ASSERT_EQ(rapt_attention_forward(&input, &input, &input, &options, &results, nullptr, 0, nullptr),
            RAPT_OK)
      << rapt_last_error();
  EXPECT_EQ(out[0], 5);
  EXPECT_EQ(out[5], 7);
  mean.spec = "maen";
  EXPECT_EQ(rapt_attention_forward(&input, &input, &input, &options, &results, nullptr, 0, nullptr),
            RAPT_ERROR_UNKNOWN_NAME);
}

}  // namespace
}  // namespace laws
