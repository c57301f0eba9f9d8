// Calls on a cache that cannot be: each throws one Error that names the argument "cache", before
// anything is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "rapt/backward.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/lengths.h"
#include "rapt/tangents.h"
#include "support/call.h"

namespace laws {
namespace {

using rapt::ErrorCode;

Tensor listed(DType dtype, const Dims& dims, const Dims& values) {
  Tensor tensor(dtype, dims);
  if (dtype == DType::i64)
    std::ranges::copy(values, tensor.values<int64_t>().begin());
  else
    std::ranges::transform(values, tensor.values<int32_t>().begin(),
                           [](int64_t x) { return static_cast<int32_t>(x); });
  return tensor;
}

// A valid call: 2 sequences of 9 and 4 keys, with 4 query heads and 2 key heads, in 6 pages of 4
// keys. The second sequence has one page; its other entries name none.
struct CachedCall {
  Tensor q = filled(DType::f32, {2, 4, 5, 8}, 1), k = filled(DType::f32, {6, 2, 4, 8}, 1),
         v = filled(DType::f32, {6, 2, 4, 3}, 1);
  Tensor lengths = listed(DType::i64, {2}, {9, 4});
  Tensor table = listed(DType::i32, {2, 3}, {5, 0, 3, 2, -1, 1000});
  Tensor starts = listed(DType::i64, {2}, {0, 0});
  // Memory of the caller for what tests replace in a call.
  Tensor other;
  std::vector<const rapt::Mask*> masks;
  TensorView query = q, key = k, value = v;
  AttentionOptions options;

  Tensor output = filled(DType::f32, {2, 4, 5, 3}, 77), lse = filled(DType::f32, {2, 4, 5}, 77),
         map = filled(DType::f32, {2, 4, 1, 1}, 77), received = filled(DType::f32, {2, 4, 12}, 77);
  rapt::AttentionOutputs outputs;
  std::vector<std::byte> workspace = std::vector<std::byte>(1 << 20, std::byte{0x5a});

  CachedCall() {
    options.cache = {lengths, table, {}};
    outputs.state = {output, lse};
  }
  // Makes `view` a list or table of its own.
  void replace(TensorView& view, DType dtype, const Dims& dims, const Dims& values) {
    other = listed(dtype, dims, values);
    view = other;
  }
  void run() {
    options.masks = masks;
    scaled_dot_product_attention(query, key, value, options, outputs, workspace);
  }
  bool untouched() const {
    for (const Tensor* t : {&output, &lse, &map, &received})
      for (const double x : values_of(*t))
        if (x != 77) return false;
    return std::ranges::all_of(workspace, [](std::byte x) { return x == std::byte{0x5a}; });
  }
};

// Sets one thing wrong.
using SpoilCache = std::function<void(CachedCall&)>;

void expect_refused_cache(const char* what, const SpoilCache& spoil, bool unsupported) {
  SCOPED_TRACE(what);
  CachedCall call;
  spoil(call);
  try {
    call.run();
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_STREQ(error.argument(), "cache") << error.what();
    const ErrorCode code = error.code();
    if (unsupported)
      EXPECT_EQ(code, ErrorCode::unsupported) << error.what();
    else
      EXPECT_TRUE(code == ErrorCode::argument || code == ErrorCode::shape ||
                  code == ErrorCode::dtype)
          << error.what();
  }
  EXPECT_TRUE(call.untouched());
}

TEST(BadCache, TheUnspoiltCallWorks) {
  CachedCall call;
  ASSERT_NO_THROW(call.run());
  EXPECT_FLOAT_EQ(static_cast<float>(get(call.output, Dims{1, 3, 4, 2})), 1);
  // A sequence without keys has no page.
  call.replace(call.options.cache.lengths, DType::i32, {2}, {12, 0});
  ASSERT_NO_THROW(call.run());
  EXPECT_FLOAT_EQ(static_cast<float>(get(call.output, Dims{0, 3, 4, 2})), 1);
  EXPECT_EQ(get(call.output, Dims{1, 3, 4, 2}), 0);
}

TEST(BadCache, Lengths) {
  const struct {
    const char* what;
    SpoilCache spoil;
  } mistakes[] = {
      {"missing beside a block table", [](auto& c) { c.options.cache.lengths = {}; }},
      {"missing beside starts",
       [](auto& c) {
         c.options.cache = {{}, {}, c.starts};
       }},
      {"above the capacity",
       [](auto& c) {
         c.replace(c.options.cache.lengths, DType::i64, {2}, {13, 4});
       }},
      {"far above it",
       [](auto& c) {
         c.replace(c.options.cache.lengths, DType::i64, {2}, {9, INT64_MAX});
       }},
      {"below 0",
       [](auto& c) {
         c.replace(c.options.cache.lengths, DType::i32, {2}, {9, -1});
       }},
      {"of one sequence",
       [](auto& c) { c.replace(c.options.cache.lengths, DType::i64, {1}, {9}); }},
      {"of three sequences",
       [](auto& c) {
         c.replace(c.options.cache.lengths, DType::i64, {3}, {9, 4, 4});
       }},
      {"of rank 2",
       [](auto& c) {
         c.replace(c.options.cache.lengths, DType::i64, {2, 1}, {9, 4});
       }},
      {"of rank 0", [](auto& c) { c.replace(c.options.cache.lengths, DType::i64, {}, {4}); }},
      {"f32", [](auto& c) { c.options.cache.lengths = c.other = filled(DType::f32, {2}, 4); }},
      {"null", [](auto& c) { c.options.cache.lengths.data = nullptr; }},
  };
  for (const auto& mistake : mistakes) expect_refused_cache(mistake.what, mistake.spoil, false);
}

TEST(BadCache, BlockTables) {
  const auto with = [](const Dims& values) {
    return [values](CachedCall& c) {
      c.replace(c.options.cache.block_table, DType::i64, {2, 3}, values);
    };
  };
  const struct {
    const char* what;
    SpoilCache spoil;
  } mistakes[] = {
      {"a page that does not exist", with({5, 0, 6, 2, -1, -1})},
      {"a page far away", with({5, 0, 3, INT64_MAX, -1, -1})},
      {"a page beyond 32 bits", with({(int64_t{1} << 32) + 5, 0, 3, 2, -1, -1})},
      {"-1 where keys are", with({5, -1, 3, 2, -1, -1})},
      {"the least page", with({5, 0, INT64_MIN, 2, -1, -1})},
      {"i32, -1 where keys are",
       [](auto& c) {
         c.replace(c.options.cache.block_table, DType::i32, {2, 3}, {5, 0, 3, -1, -1, -1});
       }},
      {"one row",
       [](auto& c) {
         c.replace(c.options.cache.block_table, DType::i64, {1, 3}, {5, 0, 3});
       }},
      {"three rows",
       [](auto& c) {
         c.replace(c.options.cache.block_table, DType::i64, {3, 3}, {5, 0, 3, 2, 1, 1, 1, 1, 1});
       }},
      {"no columns",
       [](auto& c) {
         c.replace(c.options.cache.block_table, DType::i64, {2, 0}, {});
       }},
      {"rank 1",
       [](auto& c) {
         c.replace(c.options.cache.block_table, DType::i64, {2}, {5, 2});
       }},
      {"rank 3",
       [](auto& c) {
         c.replace(c.options.cache.block_table, DType::i64, {2, 3, 1}, {5, 0, 3, 2, 1, 1});
       }},
      {"f32",
       [](auto& c) {
         c.options.cache.block_table = c.other = filled(DType::f32, {2, 3}, 1);
       }},
      {"boolean",
       [](auto& c) {
         c.options.cache.block_table = c.other = filled(DType::boolean, {2, 3}, 1);
       }},
      {"null", [](auto& c) { c.options.cache.block_table.data = nullptr; }},
  };
  for (const auto& mistake : mistakes) expect_refused_cache(mistake.what, mistake.spoil, false);
}

TEST(BadCache, Starts) {
  const auto with = [](DType dtype, const Dims& dims, const Dims& values) {
    return [=](CachedCall& c) { c.replace(c.options.cache.starts, dtype, dims, values); };
  };
  const struct {
    const char* what;
    SpoilCache spoil;
  } mistakes[] = {
      {"the capacity", with(DType::i64, {2}, {0, 12})},
      {"far away", with(DType::i64, {2}, {INT64_MAX, 0})},
      {"below 0", with(DType::i32, {2}, {-1, 0})},
      {"of one sequence", with(DType::i64, {1}, {0})},
      {"of three sequences", with(DType::i64, {3}, {0, 0, 0})},
      {"of rank 2", with(DType::i64, {2, 1}, {0, 0})},
      {"f32", [](auto& c) { c.options.cache.starts = c.other = filled(DType::f32, {2}, 0); }},
      {"null",
       [](auto& c) {
         c.options.cache.starts = c.starts;
         c.options.cache.starts.data = nullptr;
       }},
      // The keys 8 to 11 and 0 to 3 of the second sequence have no pages.
      {"a page that does not exist, behind the last slot", with(DType::i64, {2}, {0, 9})},
  };
  for (const auto& mistake : mistakes) expect_refused_cache(mistake.what, mistake.spoil, false);
}

TEST(BadCache, KeysAndValues) {
  const struct {
    const char* what;
    SpoilCache spoil;
  } mistakes[] = {
      {"pages of 0 keys",
       [](auto& c) {
         c.key = c.k.view().slice(2, 0, 0);
         c.value = c.v.view().slice(2, 0, 0);
         c.replace(c.options.cache.lengths, DType::i64, {2}, {0, 0});
       }},
      {"fewer pages of values", [](auto& c) { c.value = c.v.view().slice(0, 0, 5); }},
      {"fewer pages of keys", [](auto& c) { c.key = c.k.view().slice(0, 0, 5); }},
      {"no dimension of pages",
       [](auto& c) {
         c.key = TensorView(static_cast<float*>(c.k.data()), {4, 8});
         c.value = TensorView(static_cast<float*>(c.v.data()), {4, 3});
       }},
      {"more pages than sequences without a block table",
       [](auto& c) {
         c.options.cache.block_table = {};
         c.replace(c.options.cache.lengths, DType::i64, {2}, {4, 4});
       }},
      {"more queries than sequences",
       [](auto& c) {
         c.query = c.other = filled(DType::f32, {3, 4, 5, 8}, 1);
       }},
  };
  for (const auto& mistake : mistakes) expect_refused_cache(mistake.what, mistake.spoil, false);
}

const Tensor kAllowed = filled(DType::boolean, {5, 12}, 1);
const Tensor kTwoLengths = filled(DType::i64, {2}, 4);
const Tensor kBias = filled(DType::f32, {5, 12}, 0);
const Tensor kRows = filled(DType::f32, {3, 8}, 1), kRow = filled(DType::f32, {8}, 1);
const rapt::Boolean kBoolean(kAllowed);
const rapt::Lengths kLengthsMask(kTwoLengths);
const rapt::Rotary kRotary;

TEST(BadCache, OptionsWithoutPositionsInACache) {
  const struct {
    const char* what;
    SpoilCache spoil;
  } mistakes[] = {
      {"bias", [](auto& c) { c.options.bias = kBias; }},
      {"boolean mask", [](auto& c) { c.masks = {&kBoolean}; }},
      {"mask of lengths", [](auto& c) { c.masks = {&kLengthsMask}; }},
      {"map",
       [](auto& c) {
         c.options.map = rapt::MapRequest{1, 1};
         c.outputs.map = c.map;
       }},
      {"cosine", [](auto& c) { c.options.cosine.emplace(); }},
      {"rotated keys", [](auto& c) { c.options.rotary.embedding = &kRotary; }},
      {"distance tables", [](auto& c) { c.options.relative.key_rows = kRows; }},
      {"biases of queries", [](auto& c) { c.options.relative.content_bias = kRow; }},
  };
  for (const auto& mistake : mistakes) expect_refused_cache(mistake.what, mistake.spoil, true);
}

// The same queries as two packed sequences of 4 and 6.
void pack(CachedCall& c) {
  c.query = TensorView(static_cast<float*>(c.q.data()), {4, 10, 8});
  c.outputs.state = {TensorView(static_cast<float*>(c.output.data()), {4, 10, 3}),
                     TensorView(static_cast<float*>(c.lse.data()), {4, 10})};
  c.starts = listed(DType::i64, {3}, {0, 4, 10});
  c.options.packed.query_starts = c.starts;
}

TEST(BadCache, StartsOfPackedKeys) {
  CachedCall call;
  pack(call);
  EXPECT_NO_THROW(call.run());
  const auto spoil = [](CachedCall& c) {
    pack(c);
    c.options.packed.key_starts = c.starts;
  };
  expect_refused_cache("key_starts", spoil, false);
}

// Its columns would be keys of all sequences.
TEST(BadCache, ReceivedAttentionOfPackedQueries) {
  const auto spoil = [](CachedCall& c) {
    pack(c);
    c.options.received = true;
    c.outputs.received = c.received;
  };
  expect_refused_cache("received", spoil, true);
}

// Calls `pass`, which must refuse options.cache as unsupported.
void expect_unsupported(const char* what, const std::function<void()>& pass) {
  SCOPED_TRACE(what);
  try {
    pass();
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_STREQ(error.argument(), "cache") << error.what();
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
  }
}

TEST(BadCache, GradientsAndTangents) {
  CachedCall c;
  c.run();
  std::ranges::fill(c.workspace, std::byte{0x5a});
  const Tensor d = filled(DType::f32, {2, 4, 5, 3}, 1);
  rapt::BackwardInputs inputs;
  inputs.state = c.outputs.state;
  inputs.d_output = d;
  rapt::InputTangents moves;
  moves.query = c.query;
  Tensor d_query = filled(DType::f32, {2, 4, 5, 8}, 77),
         d_key = filled(DType::f32, {6, 2, 4, 8}, 77),
         d_value = filled(DType::f32, {6, 2, 4, 3}, 77);
  rapt::GradientOutputs gradients;
  gradients.d_query = d_query, gradients.d_key = d_key, gradients.d_value = d_value;
  expect_unsupported("backward", [&] {
    rapt::scaled_dot_product_attention_backward(c.query, c.key, c.value, c.options, inputs);
  });
  expect_unsupported("backward into the caller's memory", [&] {
    rapt::scaled_dot_product_attention_backward(c.query, c.key, c.value, c.options, inputs, {},
                                                gradients, c.workspace);
  });
  expect_unsupported("tangents", [&] {
    rapt::attention_jvp(c.query, c.key, c.value, c.options, c.outputs.state, moves);
  });
  expect_unsupported("tangents of the backward pass", [&] {
    rapt::attention_backward_jvp(c.query, c.key, c.value, c.options, inputs, moves, {});
  });
  for (const Tensor* t : {&d_query, &d_key, &d_value})
    EXPECT_TRUE(same_bits(*t, filled(DType::f32, Dims(t->dims().begin(), t->dims().end()), 77)));
  EXPECT_TRUE(std::ranges::all_of(c.workspace, [](std::byte x) { return x == std::byte{0x5a}; }));
}

}  // namespace
}  // namespace laws
