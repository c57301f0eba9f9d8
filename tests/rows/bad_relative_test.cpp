// Invalid relative positions are rejected by name before anything is written.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "hostile/valid_inputs.h"
#include "rapt/relative.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;
using rapt::RelativePositions;

// Two batches of four heads, head_dim 8 and value_dim 3, with tables that fit.
struct Call : ValidInputs {
  Tensor rows = filled(DType::f32, {4, 9, 8}, 0.5), query_rows = filled(DType::f32, {9, 8}, 0.25),
         value_rows = filled(DType::f32, {1, 9, 3}, 1), content = filled(DType::f32, {4, 8}, 1),
         position = filled(DType::f32, {8}, 1);
  Tensor output = filled(DType::f32, {2, 4, 5, 3}, 77), lse = filled(DType::f32, {2, 4, 5}, 77);
  rapt::AttentionState state;
  Call() {
    RelativePositions& r = options.relative;
    r.key_rows = rows, r.query_rows = query_rows, r.value_rows = value_rows;
    r.content_bias = content, r.position_bias = position;
    state.output = output, state.statistic = lse;
  }
  void run() {
    scaled_dot_product_attention(query, key, value, options, {state}, workspace, context);
  }
};

enum class Verbs : uint8_t { all, calls };  // calls: plan() reads no data, so it accepts null

void expect_refused(const char* what, ErrorCode code, const std::vector<std::string>& fragments,
                    const std::function<void(Call&)>& spoil, Verbs verbs = Verbs::all) {
  SCOPED_TRACE(what);
  Call call;
  spoil(call);
  expect_error(code, fragments, [&] { call.run(); });
  EXPECT_TRUE(same_bits(call.output, filled(DType::f32, {2, 4, 5, 3}, 77)));
  EXPECT_TRUE(call.workspace_untouched());
  expect_error(code, fragments, [&] {
    scaled_dot_product_attention(call.query, call.key, call.value, call.options, call.context);
  });
  if (verbs == Verbs::calls) return;
  expect_error(code, fragments, [&] {
    (void)rapt::plan(call.query, call.key, call.value, call.options, call.context);
  });
}

TEST(BadRelative, TheUnspoiltCallWorks) {
  Call call;
  EXPECT_NO_THROW(call.run());
}

using Table = TensorView RelativePositions::*;
struct Named {
  const char* name;
  Table table;
};
constexpr Named kTables[] = {{"key_rows", &RelativePositions::key_rows},
                             {"query_rows", &RelativePositions::query_rows},
                             {"value_rows", &RelativePositions::value_rows},
                             {"content_bias", &RelativePositions::content_bias},
                             {"position_bias", &RelativePositions::position_bias}};

TEST(BadRelative, Tables) {
  for (const auto& [name, table] : kTables) {
    const Table t = table;
    expect_refused("dtype", ErrorCode::dtype, {name, "f32", "f64"},
                   [&](Call& c) { (c.options.relative.*t).dtype = DType::f64; });
    expect_refused("dims", ErrorCode::shape, {name}, [&](Call& c) {
      TensorView& view = c.options.relative.*t;
      ++view.shape[view.rank - 1];
    });
    expect_refused("rank", ErrorCode::shape, {name}, [&](Call& c) {
      TensorView& view = c.options.relative.*t;
      view.rank =
          t == &RelativePositions::content_bias || t == &RelativePositions::position_bias ? 0 : 1;
    });
    expect_refused("rank that no view has", ErrorCode::shape, {},
                   [&](Call& c) { (c.options.relative.*t).rank = rapt::kMaxRank + 1; });
    expect_refused(
        "null", ErrorCode::argument, {name, "null"},
        [&](Call& c) { (c.options.relative.*t).data = nullptr; }, Verbs::calls);
    expect_refused("negative length", ErrorCode::shape, {},
                   [&](Call& c) { (c.options.relative.*t).shape[0] = -1; });
    // Leading dimensions that do not fit: three heads instead of four, or a dimension more than the
    // output has.
    expect_refused("leading dimensions", ErrorCode::shape, {name, "3"}, [&](Call& c) {
      TensorView& view = c.options.relative.*t;
      const int matrix =
          t == &RelativePositions::content_bias || t == &RelativePositions::position_bias ? 1 : 2;
      if (view.rank == matrix) {
        for (int i = view.rank; i > 0; --i)
          view.shape[i] = view.shape[i - 1], view.strides[i] = view.strides[i - 1];
        ++view.rank;
        view.strides[0] = 0;
      }
      view.shape[0] = 3;
    });
  }
  const Tensor ten = filled(DType::f32, {10, 8}, 1);
  for (const Table t : {&RelativePositions::key_rows, &RelativePositions::query_rows})
    expect_refused("other distances", ErrorCode::shape, {"9", "10"},
                   [&](Call& c) { c.options.relative.*t = ten; });
  const Tensor none = filled(DType::f32, {0, 8}, 1), no_values = filled(DType::f32, {0, 3}, 1);
  expect_refused("no distances", ErrorCode::shape, {"0"}, [&](Call& c) {
    RelativePositions& r = c.options.relative;
    r.key_rows = r.query_rows = none;
    r.value_rows = no_values;
  });
}

TEST(BadRelative, Numbers) {
  const auto argument = ErrorCode::argument;
  for (const int64_t bad : {int64_t{9}, int64_t{-2}, INT64_MAX, INT64_MIN})
    expect_refused("center", argument, {"center", std::to_string(bad)},
                   [&](Call& c) { c.options.relative.center = bad; });
  for (const int64_t bad : {int64_t{1}, int64_t{-1}, INT64_MIN})
    expect_refused("exact", argument, {"exact", std::to_string(bad)}, [&](Call& c) {
      c.options.relative.exact = bad;
      c.options.relative.max_distance = 32;
    });
  for (const int64_t bad : {int64_t{0}, int64_t{4}, int64_t{5}, int64_t{12}, int64_t{-7}})
    expect_refused("max_distance", argument, {"max_distance", std::to_string(bad)}, [&](Call& c) {
      c.options.relative.exact = 4;
      c.options.relative.max_distance = bad;
    });
  expect_refused("max_distance without exact", argument, {"max_distance"},
                 [](Call& c) { c.options.relative.max_distance = 32; });
  Call call;
  call.options.relative.exact = int64_t{1} << 32;
  call.options.relative.max_distance = int64_t{1} << 53;
  EXPECT_NO_THROW(call.run());
  call.options.relative.exact = 2;
  call.options.relative.max_distance = 7;
  EXPECT_NO_THROW(call.run());
  expect_refused("position_bias alone", argument, {"position_bias", "key_rows"},
                 [](Call& c) { c.options.relative.key_rows = {}; });
}

// Parameters that choose table rows are rejected without a table.
TEST(BadRelative, NumbersWithoutTables) {
  const struct {
    const char* name;
    std::function<void(RelativePositions&)> set;
  } numbers[] = {{"center", [](RelativePositions& r) { r.center = 0; }},
                 {"exact", [](RelativePositions& r) { r.exact = 4, r.max_distance = 32; }},
                 {"max_distance", [](RelativePositions& r) { r.max_distance = 32; }},
                 {"anchor", [](RelativePositions& r) { r.anchor = rapt::Anchor::bottom_right; }}};
  for (const auto& [name, set] : numbers) {
    SCOPED_TRACE(name);
    const auto& given = set;
    expect_refused("with a bias alone", ErrorCode::argument, {name, "key_rows"}, [&](Call& c) {
      RelativePositions alone;
      alone.content_bias = c.content;
      given(alone);
      c.options.relative = alone;
    });
    expect_refused("alone", ErrorCode::argument, {name, "key_rows"}, [&](Call& c) {
      c.options.relative = {};
      given(c.options.relative);
    });
  }
}

TEST(BadRelative, BesideWhatChangesRows) {
  const rapt::Rotary rotary;
  expect_refused("rotary", ErrorCode::unsupported, {"rotary"},
                 [&](Call& c) { c.options.rotary.embedding = &rotary; });
  expect_refused("cosine", ErrorCode::unsupported, {"cosine"},
                 [](Call& c) { c.options.cosine.emplace(); });
}

TEST(BadRelative, OutputsOverTables) {
  for (const auto& [name, table] : kTables) {
    SCOPED_TRACE(name);
    Call call;
    TensorView& view = call.options.relative.*table;
    view.data = call.output.data();  // all of them are smaller
    expect_error(ErrorCode::overlap, {name}, [&] { call.run(); });
    for (const double x : values_of(call.output)) EXPECT_EQ(x, 77);
  }
}

}  // namespace
}  // namespace laws
