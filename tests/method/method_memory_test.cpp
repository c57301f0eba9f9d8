// The memory of a call with a method: tensors that it writes overlap nothing, its scratch is
// aligned in a workspace that begins anywhere, and gradients are set to zero without touching what
// lies between their rows. Also what a call refuses that such a method declares or lacks.
#include <gtest/gtest.h>

#include "base/tensor_memory.h"
#include "method/method_call.h"
#include "rapt/backward.h"
#include "rapt/method/mean.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

constexpr size_t kScratchOfWriter = 200;

// A method that fills its scratch and writes 3 to its tensors, in both passes; it has no statistic.
class Writer final : public rapt::Method {
 public:
  TensorView needed, first, second, third, fourth, fifth;

  static const rapt::Declaration kDeclaration;
  static const rapt::MethodScope kScope;
  const rapt::Declaration& declaration() const noexcept override { return kDeclaration; }
  const rapt::MethodScope& scope() const noexcept override { return kScope; }
  void check(const rapt::MethodCall&) const override {}
  rapt::MethodPlan plan(const rapt::MethodCall&) const override {
    return {.kernel = "writer", .workspace_bytes = kScratchOfWriter, .threads = 1, .pairs = 0};
  }
  void forward(const rapt::MethodCall&, const rapt::MethodResults&,
               std::byte* scratch) const override {
    write(scratch);
  }
  rapt::MethodPlan plan_backward(const rapt::MethodCall& call,
                                 const rapt::WantedGradients&) const override {
    return plan(call);
  }
  void backward(const rapt::MethodCall&, const rapt::MethodGradients&,
                std::byte* scratch) const override {
    write(scratch);
  }

 private:
  void write(std::byte* scratch) const {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch) % 64, 0u);
    std::fill_n(scratch, kScratchOfWriter, std::byte{3});
    for (const TensorView* tensor : {&first, &second, &third, &fourth})
      if (tensor->defined()) for_each_index(tensor->dims(), [&](auto at) { set(*tensor, at, 3); });
  }
};

constexpr rapt::Parameter kParametersOfWriter[] = {
    rapt::parameter<Writer, &Writer::needed>("needed", "read", rapt::kAnyNumber, {}, true),
    rapt::written_parameter<Writer, &Writer::first>("first", "written"),
    rapt::written_parameter<Writer, &Writer::second>("second", "written"),
    rapt::written_parameter<Writer, &Writer::third>("third", "written"),
    rapt::written_parameter<Writer, &Writer::fourth>("fourth", "written"),
    rapt::written_parameter<Writer, &Writer::fifth>("fifth", "written")};
const rapt::Declaration Writer::kDeclaration = {"writer", "writer", "this test",
                                                kParametersOfWriter};
const rapt::MethodScope Writer::kScope = {
    .statistic = rapt::Statistic::none, .relative = true, .d_statistic = true};

struct CallOfWriter {
  Tensor rows = filled(DType::f32, {2, 4, 3}, 1), output = filled(DType::f32, {2, 4, 3}, 0),
         statistic = filled(DType::f32, {2, 4}, 0), d_query = filled(DType::f32, {2, 4, 3}, 0),
         needed = filled(DType::f32, {1}, 0);
  Writer writer;
  AttentionOptions options;
  rapt::BackwardInputs inputs;
  rapt::BackwardRequest request;
  std::vector<std::byte> workspace = std::vector<std::byte>(kScratchOfWriter + 63);

  CallOfWriter() {
    writer.needed = needed;
    options.method = &writer;
    inputs.state.output = output, inputs.state.statistic = statistic, inputs.d_output = rows;
    request.key = request.value = false;
  }
  void forward() {
    scaled_dot_product_attention(rows, rows, rows, options,
                                 {.state = {.output = output, .statistic = statistic}}, workspace);
  }
  void backward() {
    scaled_dot_product_attention_backward(rows, rows, rows, options, inputs, request,
                                          {.d_query = d_query}, workspace);
  }
};

TEST(MethodMemory, WrittenTensorsOverlapNoOutput) {
  CallOfWriter call;
  call.writer.first = call.output;
  expect_error(ErrorCode::overlap, {"first", "output"}, [&] { call.forward(); });
  call.writer.first = call.statistic.view().slice(1, 3, 4);
  expect_error(ErrorCode::overlap, {"first", "statistic"}, [&] { call.forward(); });
  call.writer.first = call.d_query;
  expect_error(ErrorCode::overlap, {"first", "d_query"}, [&] { call.backward(); });
  call.writer.first = call.output;  // which the backward pass reads
  expect_error(ErrorCode::overlap, {"first", "state.output"}, [&] { call.backward(); });
  EXPECT_EQ(get(call.output, Dims{0, 0, 0}), 0);
}

TEST(MethodMemory, WrittenTensorsOverlapNeitherEachOtherNorTheWorkspace) {
  CallOfWriter call;
  Tensor states = filled(DType::f32, {4, 2}, 0);
  call.writer.first = states.view().slice(0, 0, 3);
  call.writer.second = states.view().slice(0, 2, 4);
  expect_error(ErrorCode::overlap, {"first", "second"}, [&] { call.forward(); });
  // Columns of one matrix are refused as well: their ranges of addresses meet.
  call.writer.first = states.view().slice(1, 0, 1);
  call.writer.second = states.view().slice(1, 1, 2);
  expect_error(ErrorCode::overlap, {"first", "second"}, [&] { call.forward(); });
  call.writer.second = {};
  call.writer.first = TensorView(reinterpret_cast<uint8_t*>(call.workspace.data()), {4});
  expect_error(ErrorCode::overlap, {"first", "workspace"}, [&] { call.forward(); });
}

TEST(MethodMemory, AtMostFourTensorsAreWritten) {
  static_assert(rapt::kMostWritten == 4);
  CallOfWriter call;
  Tensor states = filled(DType::f32, {5, 2}, 0);
  TensorView* const written[] = {&call.writer.first, &call.writer.second, &call.writer.third,
                                 &call.writer.fourth, &call.writer.fifth};
  for (int64_t i = 0; i < 4; ++i) *written[i] = states.view().slice(0, i, i + 1);
  call.forward();
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(get(states, Dims{i, 1}), i < 4 ? 3 : 0) << i;
  *written[4] = states.view().slice(0, 4, 5);
  expect_error(ErrorCode::unsupported, {"method writer", "more than 4"}, [&] { call.forward(); });
  expect_error(ErrorCode::unsupported, {"method writer", "more than 4"}, [&] { call.backward(); });
}

TEST(MethodMemory, ScratchIsAlignedInAnyWorkspace) {
  CallOfWriter call;
  const size_t needed = rapt::workspace_bytes(call.rows, call.rows, call.rows, call.options);
  EXPECT_EQ(needed, rapt::backward_workspace_bytes(call.rows, call.rows, call.rows, call.options,
                                                   call.request));
  for (size_t begin = 0; begin < 64; ++begin) {
    std::vector<std::byte> memory(begin + needed + 1, std::byte{9});
    const std::span<std::byte> workspace(memory.data() + begin, needed);
    scaled_dot_product_attention(call.rows, call.rows, call.rows, call.options,
                                 {.state = {.output = call.output}}, workspace);
    EXPECT_EQ(memory.back(), std::byte{9}) << begin;
  }
}

TEST(MethodMemory, WhatTheDeclarationRequiresMustBeThere) {
  CallOfWriter call;
  call.writer.needed = {};
  expect_error(ErrorCode::argument, {"method writer", "needed is missing"},
               [&] { call.forward(); });
}

TEST(MethodMemory, GradientsOfRelativePositionsAndOfNoStatisticAreRefused) {
  CallOfWriter call;
  call.inputs.d_statistic = call.statistic;
  expect_error(ErrorCode::unsupported, {"method writer", "statistic"}, [&] { call.backward(); });
  call.inputs.d_statistic = {};
  const Tensor table = filled(DType::f32, {7, 3}, 0);
  call.options.relative.key_rows = table;
  call.forward();
  call.request.relative = true;
  expect_error(ErrorCode::unsupported, {"method writer", "no gradient of relative"},
               [&] { call.backward(); });
}

TEST(SetToZero, LeavesWhatLiesBetween) {
  Tensor whole = filled(DType::bf16, {3, 4, 6}, 1);
  const TensorView columns = whole.view().slice(2, 1, 3), heads = columns.slice(0, 1, 3);
  rapt::set_to_zero(heads);
  for_each_index(whole.dims(), [&](auto at) {
    EXPECT_EQ(get(whole, at), at[0] >= 1 && at[2] >= 1 && at[2] < 3 ? 0 : 1);
  });
  TensorView backwards = whole;  // the columns 5, 4, 3, which are not dense
  backwards.data = static_cast<std::byte*>(whole.view().data) + 2 * 5;
  backwards.shape[2] = 3, backwards.strides[2] = -1;
  rapt::set_to_zero(backwards);
  for_each_index(whole.dims(), [&](auto at) {
    EXPECT_EQ(get(whole, at), at[2] >= 3 || (at[0] >= 1 && at[2] >= 1) ? 0 : 1);
  });
}

// Gradients of the mean with gaps between rows, of heads that share a key.
TEST(SetToZero, ClearsGradientsOfTheMeanOnce) {
  const Tensor query = filled(DType::f32, {4, 3, 2}, 1), key = filled(DType::f32, {2, 3, 2}, 1);
  const rapt::Mean mean;
  AttentionOptions options;
  options.method = &mean;
  AttentionResult forward = scaled_dot_product_attention(query, key, key, options);
  Tensor all = filled(DType::f32, {4, 3, 5}, 7);
  rapt::BackwardRequest request;
  request.value = false;
  std::vector<std::byte> workspace(
      rapt::backward_workspace_bytes(query, key, key, options, request));
  Tensor of_key = filled(DType::f32, {2, 3, 5}, 7);
  scaled_dot_product_attention_backward(
      query, key, key, options, {.state = forward.state(), .d_output = forward.output}, request,
      {.d_query = all.view().slice(2, 1, 3), .d_key = of_key.view().slice(2, 2, 4)}, workspace);
  for_each_index(all.dims(),
                 [&](auto at) { EXPECT_EQ(get(all, at), at[2] >= 1 && at[2] < 3 ? 0 : 7); });
  for_each_index(of_key.dims(),
                 [&](auto at) { EXPECT_EQ(get(of_key, at), at[2] >= 2 && at[2] < 4 ? 0 : 7); });
}

}  // namespace
}  // namespace laws
