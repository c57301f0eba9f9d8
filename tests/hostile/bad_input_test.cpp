// Bad input: all three verbs throw the same Error, with the right code and a message that says what
// was expected and what came, and touch no byte of an output.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "hostile/valid_inputs.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;

// A valid call, one part of which a test makes invalid.
struct Call : ValidInputs {
  Tensor output_memory = filled(DType::f32, {2, 4, 5, 3}, 77),
         lse_memory = filled(DType::f32, {2, 4, 5}, 77),
         weights_memory = filled(DType::f32, {2, 4, 5, 7}, 77),
         allowed_memory = filled(DType::boolean, {5, 7}, 1),
         lengths_memory = filled(DType::i64, {2}, 7);
  TensorView weights;
  rapt::AttentionState state;
  std::vector<const rapt::Mask*> masks;

  Call() {
    state.output = output_memory;
    state.statistic = lse_memory;
  }
  void run() {
    options.masks = masks;
    scaled_dot_product_attention(query, key, value, options, {state, weights}, workspace, context);
  }
};

enum class Verbs : uint8_t { all, with_buffers };  // which verbs must reject

void expect_refused(const char* what, ErrorCode code, const std::vector<std::string>& fragments,
                    const std::function<void(Call&)>& spoil, Verbs verbs = Verbs::all) {
  SCOPED_TRACE(what);
  Call call;
  spoil(call);
  const auto refused = [&](const char* verb, const std::function<void()>& run) {
    SCOPED_TRACE(verb);
    expect_error(code, fragments, run);
  };
  refused("with buffers", [&] { call.run(); });
  EXPECT_TRUE(same_bits(call.output_memory, filled(DType::f32, {2, 4, 5, 3}, 77)));
  EXPECT_TRUE(same_bits(call.lse_memory, filled(DType::f32, {2, 4, 5}, 77)));
  EXPECT_TRUE(same_bits(call.weights_memory, filled(DType::f32, {2, 4, 5, 7}, 77)));
  EXPECT_TRUE(call.workspace_untouched());
  if (verbs == Verbs::with_buffers) return;
  refused("simple", [&] {
    scaled_dot_product_attention(call.query, call.key, call.value, call.options, call.context);
  });
}

TEST(BadInput, TheUnspoiltCallWorks) {
  Call call;
  EXPECT_NO_THROW(call.run());
  EXPECT_FLOAT_EQ(static_cast<float>(get(call.output_memory, Dims{1, 3, 4, 2})), 1);
}

TEST(BadInput, Shapes) {
  const auto shape = ErrorCode::shape;
  const Tensor other_dim = filled(DType::f32, {2, 2, 7, 9}, 1);
  const Tensor fewer_values = filled(DType::f32, {2, 2, 6, 3}, 1);
  const Tensor three_heads = filled(DType::f32, {2, 3, 7, 8}, 1);
  const Tensor eight_heads = filled(DType::f32, {2, 8, 7, 8}, 1);
  const Tensor three_batches = filled(DType::f32, {3, 2, 7, 8}, 1);
  const Tensor no_dim = filled(DType::f32, {2, 4, 5, 0}, 1);
  const Tensor no_key_dim = filled(DType::f32, {2, 2, 7, 0}, 1);
  const Tensor vector = filled(DType::f32, {8}, 1);
  expect_refused("head_dim", shape, {"8", "9", "key"}, [&](Call& c) { c.key = other_dim; });
  expect_refused("rows", shape, {"6", "7", "value"}, [&](Call& c) { c.value = fewer_values; });
  expect_refused("3 of 4 heads", shape, {"3", "4"}, [&](Call& c) { c.key = three_heads; });
  expect_refused("8 of 4 heads", shape, {"8", "4"}, [&](Call& c) { c.key = eight_heads; });
  expect_refused("batches", shape, {"3", "2"}, [&](Call& c) { c.key = three_batches; });
  expect_refused("rank", shape, {"query", "rank"}, [&](Call& c) { c.query = vector; });
  expect_refused("no head_dim", shape, {"head_dim", "0"}, [&](Call& c) {
    c.query = no_dim;
    c.key = no_key_dim;
  });
  expect_refused("negative length", shape, {"-1"}, [](Call& c) { c.key.shape[2] = -1; });
  // Only heads can be grouped; batch lengths must be equal or 1.
  const Tensor four_batches = filled(DType::f32, {4, 4, 5, 8}, 1);
  expect_refused("batch groups", shape, {"4", "2"}, [&](Call& c) { c.query = four_batches; });
}

// A rank above the largest: a view holds no more lengths, and memory beyond them must not be read,
// not even for an error message.
TEST(BadInput, RanksThatNoViewCanHave) {
  for (const int rank : {rapt::kMaxRank + 1, 1000}) {
    const auto refused = [&](const char* what, const std::function<rapt::TensorView&(Call&)>& of) {
      expect_refused(
          what, ErrorCode::shape, {}, [&](Call& c) { of(c).rank = rank; }, Verbs::with_buffers);
    };
    refused("query", [](Call& c) -> rapt::TensorView& { return c.query; });
    refused("key", [](Call& c) -> rapt::TensorView& { return c.key; });
    refused("value", [](Call& c) -> rapt::TensorView& { return c.value; });
    refused("bias", [](Call& c) -> rapt::TensorView& { return c.options.bias = c.b; });
    refused("output", [](Call& c) -> rapt::TensorView& { return c.state.output; });
    refused("statistic", [](Call& c) -> rapt::TensorView& { return c.state.statistic; });

    Call call;
    rapt::TensorView allowed = call.allowed_memory;
    allowed.rank = rank;
    const rapt::Boolean mask(allowed);
    expect_refused("mask", ErrorCode::shape, {}, [&](Call& c) { c.masks = {&mask}; });
    EXPECT_THROW(Tensor::copy_of(allowed), rapt::Error);
    EXPECT_THROW(allowed.transposed(), rapt::Error);
    rapt::AttentionState state = call.state;
    state.output.rank = rank;
    EXPECT_THROW(rapt::merge(state, state, rapt::kSoftmax), rapt::Error);
  }
}

TEST(BadInput, Dtypes) {
  const auto dtype = ErrorCode::dtype;
  const Tensor wide = filled(DType::f64, {2, 2, 7, 8}, 1);
  const Tensor wide_value = filled(DType::f64, {2, 2, 7, 3}, 1);
  const Tensor integers = filled(DType::i64, {2, 4, 5, 8}, 1);
  expect_refused("f64 key", dtype, {"f32", "f64", "key"}, [&](Call& c) { c.key = wide; });
  expect_refused("f64 value", dtype, {"f32", "f64", "value"},
                 [&](Call& c) { c.value = wide_value; });
  expect_refused("i64 query", dtype, {"i64"},
                 [&](Call& c) { c.query = c.key = c.value = integers; });
  expect_refused("bool", dtype, {"bool"},
                 [](Call& c) { c.query.dtype = c.key.dtype = c.value.dtype = DType::boolean; });
  expect_refused("bf16 query alone", dtype, {"bf16", "f32"},
                 [](Call& c) { c.query.dtype = DType::bf16; });
  expect_refused("16-bit output of f32", dtype, {"bf16", "f32"},
                 [](Call& c) { c.options.output_dtype = DType::bf16; });
}

TEST(BadInput, MissingAndNull) {
  const auto argument = ErrorCode::argument;
  expect_refused("no query", argument, {"query"}, [](Call& c) { c.query = {}; });
  expect_refused("no key", argument, {"key"}, [](Call& c) { c.key = {}; });
  expect_refused("no value", argument, {"value"}, [](Call& c) { c.value = {}; });
  expect_refused("null query", argument, {"query", "null"},
                 [](Call& c) { c.query.data = nullptr; });
  expect_refused("null key", argument, {"key", "null"}, [](Call& c) { c.key.data = nullptr; });
  expect_refused("null value", argument, {"value", "null"},
                 [](Call& c) { c.value.data = nullptr; });
  // A pointer between two floats: reading there is undefined in C++, and faults on some machines.
  expect_refused("misaligned query", argument, {"query", "aligned"},
                 [](Call& c) { c.query.data = static_cast<char*>(c.query.data) + 1; });
  expect_refused("misaligned value", argument, {"value", "aligned"},
                 [](Call& c) { c.value.data = static_cast<char*>(c.value.data) + 2; });
  expect_refused("null mask", argument, {"mask"}, [](Call& c) { c.masks.push_back(nullptr); });
  expect_refused("null bias", argument, {"bias", "null"}, [](Call& c) {
    c.options.bias = c.b;
    c.options.bias.data = nullptr;
  });
}

TEST(BadInput, Scale) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
        -std::numeric_limits<double>::infinity()})
    expect_refused("scale", ErrorCode::argument, {"scale", "finite"},
                   [&](Call& c) { c.options.scale = bad; });
}

TEST(BadInput, Bias) {
  const Tensor boolean = filled(DType::boolean, {5, 7}, 1), wide = filled(DType::f64, {5, 7}, 0),
               transposed = filled(DType::f32, {7, 5}, 0),
               deep = filled(DType::f32, {2, 2, 4, 5, 7}, 0),
               heads = filled(DType::f32, {2, 5, 7}, 0);
  const auto with = [](const Tensor& bias) { return [&](Call& c) { c.options.bias = bias; }; };
  expect_refused("bool", ErrorCode::dtype, {"bias", "bool", "mask"}, with(boolean));
  expect_refused("f64", ErrorCode::dtype, {"bias", "f64", "f32"}, with(wide));
  expect_refused("transposed", ErrorCode::shape, {"bias", "[7, 5]", "5", "7"}, with(transposed));
  expect_refused("too deep", ErrorCode::shape, {"bias"}, with(deep));
  // Bias heads do not group: 2 of 4 heads is an error.
  expect_refused("grouped", ErrorCode::shape, {"bias"}, with(heads));
}

TEST(BadInput, Masks) {
  const auto with = [](const rapt::Mask& mask) {
    return [&](Call& c) { c.masks.push_back(&mask); };
  };
  const Tensor numbers = filled(DType::f32, {5, 7}, 1),
               transposed = filled(DType::boolean, {7, 5}, 1), floats = filled(DType::f64, {2}, 7),
               three = filled(DType::i64, {3}, 7), too_long = filled(DType::i64, {2}, 8),
               negative = filled(DType::i64, {2}, -1), fine = filled(DType::boolean, {5, 7}, 1);
  const rapt::Boolean of_numbers(numbers), of_transposed(transposed), of_nothing;
  expect_refused("dtype", ErrorCode::dtype, {"f32", "bool"}, with(of_numbers));
  expect_refused("shape", ErrorCode::shape, {"[7, 5]"}, with(of_transposed));
  expect_refused("absent", ErrorCode::argument, {"boolean"}, with(of_nothing));
  TensorView null = fine;
  null.data = nullptr;
  const rapt::Boolean of_null(null);
  expect_refused("null", ErrorCode::argument, {"null"}, with(of_null));
  const rapt::Lengths of_floats(floats), of_three(three), of_too_long(too_long),
      of_negative(negative), of_no_lengths;
  expect_refused("lengths dtype", ErrorCode::dtype, {"i64", "f64"}, with(of_floats));
  expect_refused("lengths shape", ErrorCode::shape, {"[3]"}, with(of_three));
  expect_refused("length 8 of 7", ErrorCode::argument, {"8", "7"}, with(of_too_long));
  expect_refused("length -1", ErrorCode::argument, {"-1"}, with(of_negative));
  expect_refused("no lengths", ErrorCode::argument, {"lengths"}, with(of_no_lengths));
  const rapt::Window left(-2, 0), right(0, -5);
  expect_refused("left", ErrorCode::argument, {"left", "-2"}, with(left));
  expect_refused("right", ErrorCode::argument, {"right", "-5"}, with(right));
  const rapt::Causal far(rapt::Anchor::top_left, std::numeric_limits<int64_t>::max());
  expect_refused("offset", ErrorCode::argument, {"offset"}, with(far));
  const rapt::Causal nowhere(static_cast<rapt::Anchor>(7));
  expect_refused("anchor", ErrorCode::argument, {"anchor"}, with(nowhere));
}

TEST(BadInput, Outputs) {
  const Tensor small = filled(DType::f32, {2, 4, 5, 2}, 1),
               wide = filled(DType::f64, {2, 4, 5, 3}, 1),
               short_lse = filled(DType::f32, {2, 4, 4}, 1),
               wide_lse = filled(DType::f64, {2, 4, 5}, 1);
  const auto refused = [](const char* what, ErrorCode code, std::vector<std::string> fragments,
                          const std::function<void(Call&)>& spoil) {
    expect_refused(what, code, fragments, spoil, Verbs::with_buffers);
  };
  refused("shape", ErrorCode::shape, {"output", "[2, 4, 5, 3]", "[2, 4, 5, 2]"},
          [&](Call& c) { c.state.output = small; });
  refused("dtype", ErrorCode::dtype, {"output", "f64", "f32"},
          [&](Call& c) { c.state.output = wide; });
  refused("absent", ErrorCode::argument, {"output"}, [](Call& c) { c.state.output = {}; });
  refused("read-only", ErrorCode::argument, {"output", "read-only"},
          [](Call& c) { c.state.output.read_only = true; });
  refused("misaligned", ErrorCode::argument, {"output", "aligned"},
          [](Call& c) { c.state.output.data = static_cast<char*>(c.state.output.data) + 1; });
  refused("null", ErrorCode::argument, {"output", "null"},
          [](Call& c) { c.state.output.data = nullptr; });
  refused("lse shape", ErrorCode::shape, {"statistic", "[2, 4, 5]", "[2, 4, 4]"},
          [&](Call& c) { c.state.statistic = short_lse; });
  refused("lse dtype", ErrorCode::dtype, {"statistic", "f64", "f32"},
          [&](Call& c) { c.state.statistic = wide_lse; });
  refused("lse read-only", ErrorCode::argument, {"statistic", "read-only"},
          [](Call& c) { c.state.statistic.read_only = true; });
  refused("workspace", ErrorCode::argument, {"workspace", "0"}, [](Call& c) { c.workspace = {}; });
}

TEST(BadInput, Overlaps) {
  const auto refused = [](const char* what, std::vector<std::string> fragments,
                          const std::function<void(Call&)>& spoil) {
    expect_refused(what, ErrorCode::overlap, fragments, spoil, Verbs::with_buffers);
  };
  // Inputs whose memory the output takes must be as large as it: query and key are.
  const auto output_in = [](const Tensor& t, int64_t offset) {
    return [&t, offset](Call& c) {
      c.state.output.data = static_cast<float*>(t.view().data) + offset;
    };
  };
  Call owner;
  const auto take = [&](const char* name, TensorView Call::*input, int64_t offset) {
    refused(name, {"output", name}, [&](Call& c) {
      c.*input = owner.*input;
      output_in(input == &Call::query ? owner.q : owner.k, offset)(c);
    });
  };
  take("query", &Call::query, 0);
  take("query", &Call::query, 2 * 4 * 5 * 8 - 1);  // one element in common
  take("key", &Call::key, 3);
  refused("value", {"output", "value"}, [](Call& c) {
    static float memory[2 * 4 * 5 * 3];  // also holds the output: the next variable may be an input
    c.value = TensorView(static_cast<const float*>(memory), {2, 2, 7, 3});
    c.state.output.data = memory;
  });
  refused("bias", {"output", "bias"}, [](Call& c) {
    c.options.bias = c.b;
    c.options.bias.data = static_cast<float*>(c.state.output.data) + 119;
  });
  refused("statistic", {"output", "statistic"},
          [](Call& c) { c.state.statistic.data = c.state.output.data; });
  refused("weights", {"output", "weights"}, [](Call& c) {
    c.options.weights.emplace();
    c.weights = c.weights_memory;
    c.state.output.data = c.weights.data;
  });
  refused("workspace", {"workspace", "output"}, [](Call& c) {
    c.workspace = {static_cast<std::byte*>(c.state.output.data) + 100, 8};
  });
  refused("itself", {"output"}, [](Call& c) { c.state.output.strides[0] = 0; });
  refused("itself, rows", {"output"}, [](Call& c) { c.state.output.strides[2] = 2; });
  refused("interleaved with the query", {"output", "query"}, [](Call& c) {
    // The query has every second float and the output those between: rejected, since their address
    // ranges overlap.
    static float memory[2 * 4 * 5 * 8 * 2];
    const Dims query_dims{2, 4, 5, 8}, query_strides{320, 80, 16, 2};
    const Dims output_dims{2, 4, 5, 3}, output_strides{320, 80, 16, 2};
    c.query = TensorView(memory, DType::f32, query_dims, query_strides, true);
    c.state.output = TensorView(memory + 1, DType::f32, output_dims, output_strides, false);
  });
}

// A mask's tensor is an input like any other.
TEST(BadInput, OutputOverMask) {
  Call owner;
  TensorView allowed = owner.allowed_memory;
  allowed.data = owner.output_memory.view().data;
  const rapt::Boolean mask(allowed);
  expect_refused(
      "mask", ErrorCode::overlap, {"output"},
      [&](Call& c) {
        c.state.output = owner.output_memory;
        c.masks.push_back(&mask);
      },
      Verbs::with_buffers);
}

TEST(BadInput, Weights) {
  const auto argument = ErrorCode::argument;
  static const int64_t kNoHead[] = {8}, kNegative[] = {-1};
  const auto wanted = [](Call& c) {
    c.options.weights.emplace();
    c.weights = c.weights_memory;
  };
  expect_refused("rows beyond", argument, {"6", "5"}, [&](Call& c) {
    wanted(c);
    c.options.weights->row_end = 6;
  });
  expect_refused("rows backwards", argument, {"rows"}, [&](Call& c) {
    wanted(c);
    c.options.weights->row_begin = 3;
    c.options.weights->row_end = 2;
  });
  expect_refused("negative row", argument, {"-1"}, [&](Call& c) {
    wanted(c);
    c.options.weights->row_begin = -1;
  });
  expect_refused("head beyond", argument, {"head", "8"}, [&](Call& c) {
    wanted(c);
    c.options.weights->heads = kNoHead;
  });
  expect_refused("negative head", argument, {"head", "-1"}, [&](Call& c) {
    wanted(c);
    c.options.weights->heads = kNegative;
  });
  expect_refused(
      "given, not wanted", argument, {"weights"}, [](Call& c) { c.weights = c.weights_memory; },
      Verbs::with_buffers);
  expect_refused(
      "wanted, not given", argument, {"weights"}, [](Call& c) { c.options.weights.emplace(); },
      Verbs::with_buffers);
  expect_refused(
      "shape", ErrorCode::shape, {"weights", "[2, 4, 2, 7]"},
      [&](Call& c) {
        wanted(c);
        c.options.weights->row_end = 2;
      },
      Verbs::with_buffers);
}

class NoWorkers final : public rapt::Executor {
  int concurrency() const noexcept override { return 0; }
  void run(int64_t, Task, void*) override {}
};

TEST(BadInput, ExecutorWithoutWorkers) {
  NoWorkers none;
  expect_refused("concurrency", ErrorCode::argument, {"concurrency", "0"},
                 [&](Call& c) { c.context.executor = &none; });
}

// plan() rejects what the call would reject.
TEST(BadInput, PlanRefusesToo) {
  Call c;
  const Tensor other_dim = filled(DType::f32, {2, 2, 7, 9}, 1);
  EXPECT_THROW(rapt::plan(c.query, other_dim, c.value), rapt::Error);
  c.options.scale = std::nan("");
  EXPECT_THROW(rapt::plan(c.query, c.key, c.value, c.options), rapt::Error);
}

}  // namespace
}  // namespace laws
