// Errors of the C interface: each mistake of a caller gives one status and one sentence, and leaves
// the outputs unchanged.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "failing_new.h"
#include "rapt/attention.h"
#include "rapt/rapt_c.h"
#include "spoiled_call.h"

namespace {

TEST(CApi, TheCallThatIsSpoiledBelowIsValid) {
  Call c;
  EXPECT_EQ(c.plan(), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
  for (const float x : c.output_data) EXPECT_NE(x, kUntouched);
  c.options.weights = &c.request;
  c.results.weights = &c.weights;
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
}

TEST(CApi, OptionsAndContextMayBeAbsent) {
  Call c;
  EXPECT_EQ(rapt_plan(&c.query, &c.key, &c.value, nullptr, nullptr, &c.info), RAPT_OK);
  EXPECT_EQ(
      rapt_attention_forward(&c.query, &c.key, &c.value, nullptr, &c.results, nullptr, 0, nullptr),
      RAPT_OK)
      << rapt_last_error();
}

TEST(CApi, NullPointers) {
  {
    Call c;
    EXPECT_TRUE(c.refused(rapt_plan(nullptr, &c.key, &c.value, nullptr, nullptr, &c.info),
                          RAPT_ERROR_ARGUMENT, "query is a null pointer"));
    EXPECT_TRUE(c.refused(rapt_plan(&c.query, nullptr, &c.value, nullptr, nullptr, &c.info),
                          RAPT_ERROR_ARGUMENT, "key is a null pointer"));
    EXPECT_TRUE(c.refused(rapt_plan(&c.query, &c.key, nullptr, nullptr, nullptr, &c.info),
                          RAPT_ERROR_ARGUMENT, "value is a null pointer"));
    EXPECT_TRUE(c.refused(rapt_plan(&c.query, &c.key, &c.value, nullptr, nullptr, nullptr),
                          RAPT_ERROR_ARGUMENT, "rapt_plan_info"));
    EXPECT_TRUE(c.refused(
        rapt_attention_forward(&c.query, &c.key, &c.value, nullptr, nullptr, nullptr, 0, nullptr),
        RAPT_ERROR_ARGUMENT, "rapt_results"));
    EXPECT_TRUE(c.refused(rapt_attention_forward(&c.query, &c.key, &c.value, nullptr, &c.results,
                                                 nullptr, 64, nullptr),
                          RAPT_ERROR_ARGUMENT, "workspace is a null pointer of 64 bytes"));
    EXPECT_TRUE(
        c.refused(rapt_workspace_bytes(&c.query, &c.key, &c.value, nullptr, nullptr, nullptr),
                  RAPT_ERROR_ARGUMENT, "workspace_bytes is a null pointer"));
  }
  const struct {
    const char* words;
    void (*spoil)(Call&);
  } mistakes[] = {
      {"has elements but a null data pointer", [](Call& c) { c.query.data = nullptr; }},
      {"has elements but a null data pointer", [](Call& c) { c.output.data = nullptr; }},
      {"rank 4 but a null shape", [](Call& c) { c.key.shape = nullptr; }},
      {"output is a null pointer", [](Call& c) { c.results.output = nullptr; }},
      {"a null pointer to them", [](Call& c) { c.options.masks = nullptr; }},
      {"a null pointer where a rapt_variant", [](Call& c) { c.masks[0] = nullptr; }},
      {"a mask without spec", [](Call& c) { c.mask.spec = nullptr; }},
      {"scores but a null pointer to them", [](Call& c) { c.options.score_count = 1; }},
      {"a score without spec", [](Call& c) { c.scores_are(nullptr); }},
      {"a normaliser without spec", [](Call& c) { c.normalizer.spec = nullptr; }},
      {"normaliser softmax has tensors but", [](Call& c) { c.normalizer.tensor_count = 1; }},
      {"a null pointer to them", [](Call& c) { c.mask.tensor_count = 1; }},
      {"a rotary embedding without spec", [](Call& c) { c.options.rotary = &c.score; }},
      {"without an embedding", [](Call& c) { c.options.rotary_key_start = 1; }},
      {"without an embedding", [](Call& c) { c.options.rotary_query_step = 2; }},
      {"without an embedding", [](Call& c) { c.options.rotary_key_positions = &c.statistic; }},
      {"without an embedding", [](Call& c) { c.options.rotary_keys_are_rotated = 1; }},
      {"positions of keys that come rotated",
       [](Call& c) {
         c.score.spec = "rotary";
         c.options.rotary = &c.score;
         c.options.rotary_keys_are_rotated = 1;
         c.options.rotary_key_step = -1;
       }},
      {"cosine: epsilon = -1 is out of range", [](Call& c) { c.options.cosine_epsilon = -1; }},
      {"both functions", [](Call& c) { c.executor.run = nullptr; }},
      {"both functions", [](Call& c) { c.executor.concurrency = nullptr; }},
      {"weights: `heads` is a null pointer of 1",
       [](Call& c) {
         c.request.head_count = 1;
         c.options.weights = &c.request;
       }},
      {"weights: `rows` is a null pointer of 3",
       [](Call& c) {
         c.request.row_count = 3;
         c.options.weights = &c.request;
       }},
      {"map: `heads` is a null pointer of 2",
       [](Call& c) {
         c.map_request.head_count = 2;
         c.options.map = &c.map_request;
       }},
  };
  for (const auto& mistake : mistakes) {
    Call c;
    mistake.spoil(c);
    EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, mistake.words));
  }
}

// Every status, caused by a mistake that a caller can make.
TEST(CApi, EveryStatus) {
  const struct {
    rapt_status status;
    const char* words;
    void (*spoil)(Call&);
  } mistakes[] = {
      {RAPT_ERROR_SHAPE, "head_dim 7", [](Call& c) { c.key_shape[3] = 7; }},
      {RAPT_ERROR_SHAPE, "rank 33", [](Call& c) { c.query.rank = 33; }},
      {RAPT_ERROR_SHAPE, "rank -1", [](Call& c) { c.query.rank = -1; }},
      {RAPT_ERROR_SHAPE, "negative length", [](Call& c) { c.query_shape[2] = -5; }},
      {RAPT_ERROR_SHAPE, "expected [1, 2, 5, 4]", [](Call& c) { c.output_shape[3] = 3; }},
      {RAPT_ERROR_SHAPE, "expected [1, 2, 5]", [](Call& c) { c.statistic_shape[2] = 4; }},
      {RAPT_ERROR_DTYPE, "query has no dtype", [](Call& c) { c.query.dtype = 0; }},
      {RAPT_ERROR_DTYPE, "output has no dtype", [](Call& c) { c.output.dtype = 0; }},
      {RAPT_ERROR_DTYPE, "dtype 9;", [](Call& c) { c.query.dtype = RAPT_BOOL + 1; }},
      {RAPT_ERROR_DTYPE, "dtype 99", [](Call& c) { c.query.dtype = 99; }},
      {RAPT_ERROR_DTYPE, "dtype -1", [](Call& c) { c.query.dtype = -1; }},
      {RAPT_ERROR_DTYPE, "key is f64", [](Call& c) { c.key.dtype = RAPT_F64; }},
      {RAPT_ERROR_DTYPE, "output", [](Call& c) { c.output.dtype = RAPT_I32; }},
      {RAPT_ERROR_ARGUMENT, "scale is nan",
       [](Call& c) {
         static const double scale = std::numeric_limits<double>::quiet_NaN();
         c.options.scale = &scale;
       }},
      {RAPT_ERROR_ARGUMENT, "read-only", [](Call& c) { c.output.read_only = 1; }},
      {RAPT_ERROR_ARGUMENT, "memory_limit is -1", [](Call& c) { c.context.memory_limit = -1; }},
      {RAPT_ERROR_ARGUMENT, "concurrency is 0",
       [](Call& c) { c.executor.concurrency = [](void*) { return 0; }; }},
      {RAPT_ERROR_ARGUMENT, "workspace of 64 bytes", [](Call& c) { c.workspace.resize(64); }},
      {RAPT_ERROR_ARGUMENT, "weights wanted but no memory given",
       [](Call& c) { c.options.weights = &c.request; }},
      {RAPT_ERROR_ARGUMENT, "memory given for weights but",
       [](Call& c) { c.results.weights = &c.weights; }},
      {RAPT_ERROR_ARGUMENT, "row_end is -2",
       [](Call& c) {
         c.request.row_end = -2;
         c.options.weights = &c.request;
       }},
      {RAPT_ERROR_ARGUMENT, "chosen rows and a range",
       [](Call& c) {
         static const int64_t row = 1;
         c.request.row_begin = 2;
         c.request.row_count = 1;
         c.request.rows = &row;
         c.options.weights = &c.request;
       }},
      {RAPT_ERROR_ARGUMENT, "`reserved` of a rapt_options is 1",
       [](Call& c) { c.options.reserved = 1; }},
      {RAPT_ERROR_ARGUMENT, "memory is 2", [](Call& c) { c.context.memory = 2; }},
      {RAPT_ERROR_ARGUMENT, "`reserved` of a rapt_map_request is 2",
       [](Call& c) {
         c.map_request.reserved = 2;
         c.options.map = &c.map_request;
       }},
      {RAPT_ERROR_ARGUMENT, "pool of a map is 3",
       [](Call& c) {
         c.map_request.pool = 3;
         c.options.map = &c.map_request;
       }},
      {RAPT_ERROR_ARGUMENT, "map of 6 x 2 cells",
       [](Call& c) {
         c.map_request.rows = 6;
         c.options.map = &c.map_request;
       }},
      {RAPT_ERROR_ARGUMENT, "precision is 3", [](Call& c) { c.options.precision = 3; }},
      {RAPT_ERROR_ARGUMENT, "bias_order is 2", [](Call& c) { c.options.bias_order = 2; }},
      {RAPT_ERROR_ARGUMENT, "dropout.probability is 1", [](Call& c) { c.options.dropout = 1; }},
      {RAPT_ERROR_ARGUMENT, "top_k is 7", [](Call& c) { c.options.top_k = 7; }},
      {RAPT_ERROR_ARGUMENT, "top_keys", [](Call& c) { c.options.top_k = 2; }},
      {RAPT_ERROR_ARGUMENT, "entropy", [](Call& c) { c.options.entropy = 1; }},
      {RAPT_ERROR_ARGUMENT, "received", [](Call& c) { c.options.received = 1; }},
      {RAPT_ERROR_ARGUMENT, "map", [](Call& c) { c.options.map = &c.map_request; }},
      {RAPT_ERROR_ARGUMENT, "key_starts without query_starts",
       [](Call& c) { c.options.key_starts = &c.query; }},
      {RAPT_ERROR_ARGUMENT, "threads is -1",
       [](Call& c) {
         c.context.executor = nullptr;
         c.context.threads = -1;
       }},
      {RAPT_ERROR_DTYPE, "query_starts is f32", [](Call& c) { c.options.query_starts = &c.query; }},
      {RAPT_ERROR_DTYPE, "output_dtype f64", [](Call& c) { c.options.output_dtype = RAPT_F64; }},
      {RAPT_ERROR_DTYPE, "output_dtype has dtype 77", [](Call& c) { c.options.output_dtype = 77; }},
      {RAPT_ERROR_ARGUMENT, "no use for \"slanted\"",
       [](Call& c) { c.mask.spec = "causal(slanted)"; }},
      {RAPT_ERROR_ARGUMENT, "lengths is missing", [](Call& c) { c.mask.spec = "lengths"; }},
      {RAPT_ERROR_OVERLAP, "overlaps", [](Call& c) { c.output.data = c.query.data; }},
      {RAPT_ERROR_OVERFLOW, "64 bit",
       [](Call& c) { c.query_shape[0] = c.query_shape[1] = int64_t{1} << 40; }},
      {RAPT_ERROR_UNKNOWN_NAME, "did you mean causal?", [](Call& c) { c.mask.spec = "casual"; }},
      {RAPT_ERROR_UNKNOWN_NAME, "column 10: \"casual\"",
       [](Call& c) { c.mask.spec = "window | casual"; }},
      {RAPT_ERROR_ARGUMENT, "parenthesis is missing", [](Call& c) { c.mask.spec = "!(causal"; }},
      {RAPT_ERROR_UNKNOWN_NAME, "did you mean softcap?",
       [](Call& c) { c.scores_are("sotfcap(30)"); }},
      {RAPT_ERROR_ARGUMENT, "softcap", [](Call& c) { c.scores_are("softcap(-1)"); }},
      {RAPT_ERROR_UNKNOWN_NAME, "did you mean softmax?",
       [](Call& c) { c.normalizer.spec = "sofmax"; }},
      {RAPT_ERROR_UNKNOWN_NAME, "did you mean softmax?",
       [](Call& c) { c.normalizer.spec = "sofmax(base=2)"; }},
      {RAPT_ERROR_UNKNOWN_NAME, "there is no normaliser \"\"",
       [](Call& c) { c.normalizer.spec = ""; }},
      {RAPT_ERROR_ARGUMENT, "no use for \"base=2\"; expected softmax()",
       [](Call& c) { c.normalizer.spec = "softmax(base=2)"; }},
      {RAPT_ERROR_ARGUMENT, "no use for \"2\"; expected softmax()",
       [](Call& c) { c.normalizer.spec = "softmax:2"; }},
      {RAPT_ERROR_ARGUMENT, "no use for \"theta=x\"",
       [](Call& c) { c.score.spec = "rotary(theta=x)", c.options.rotary = &c.score; }},
      {RAPT_ERROR_UNKNOWN_NAME, "did you mean rotary?",
       [](Call& c) { c.score.spec = "rotray", c.options.rotary = &c.score; }},
      {RAPT_ERROR_UNKNOWN_NAME, "did you mean relative?",
       [](Call& c) { c.score.spec = "relatve(key_rows=k)", c.options.relative = &c.score; }},
      {RAPT_ERROR_UNKNOWN_NAME, "names no tensor",
       [](Call& c) { c.score.spec = "relative(key_rows=k)", c.options.relative = &c.score; }},
      {RAPT_ERROR_ARGUMENT, "no tensor is named",
       [](Call& c) { c.score.spec = "relative(center=3)", c.options.relative = &c.score; }},
      {RAPT_ERROR_UNKNOWN_NAME, "names no tensor", [](Call& c) { c.mask.spec = "lengths(n)"; }},
      {RAPT_ERROR_UNSUPPORTED, "device 7", [](Call& c) { c.query.device = 7; }},
      {RAPT_ERROR_MEMORY_LIMIT, "the limit is 10", [](Call& c) { c.context.memory_limit = 10; }},
  };
  for (const auto& mistake : mistakes) {
    Call c;
    mistake.spoil(c);
    EXPECT_TRUE(c.forward_refused(mistake.status, mistake.words));
  }
}

// A problem large enough for two workers.
TEST(CApi, AnExecutorThatFails) {
  const int64_t shape[] = {4, 256, 64};
  std::vector<float> input(4 * 256 * 64), result(input.size());
  const rapt_tensor in = Call::tensor(input.data(), shape, 3, 1);
  const rapt_tensor out = Call::tensor(result.data(), shape, 3, 0);
  rapt_results results = {};
  results.size = sizeof results;
  results.output = &out;
  rapt_executor executor = {sizeof executor, nullptr, [](void*) { return 2; }, Call::run_in_order};
  rapt_context context = {};
  context.size = sizeof context;
  context.executor = &executor;
  const auto forward = [&] {
    return rapt_attention_forward(&in, &in, &in, nullptr, &results, nullptr, 0, &context);
  };
  EXPECT_EQ(forward(), RAPT_OK) << rapt_last_error();
  executor.run = [](void*, int64_t, rapt_task, void*) { return -3; };
  EXPECT_EQ(forward(), RAPT_ERROR_EXECUTOR);
  EXPECT_STREQ(rapt_last_error(), "the executor's run() returned -3; expected 0, after all tasks");
  executor.run = [](void*, int64_t, rapt_task, void*) -> int {
    throw std::runtime_error("a pool that broke");
  };
  EXPECT_EQ(forward(), RAPT_ERROR_INTERNAL);
  EXPECT_STREQ(rapt_last_error(), "a pool that broke");
}

TEST(CApi, ATensorOfAMaskWithoutDataIsRefused) {
  Call c;
  const int64_t shape[] = {1};
  rapt_tensor lengths = {sizeof lengths, nullptr, RAPT_I64, RAPT_CPU, 1, 1, shape, nullptr};
  const rapt_named_tensor named[] = {{"n", &lengths}};
  c.mask = {sizeof c.mask, "lengths(n)", 1, named};
  EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, "null data pointer"));
  EXPECT_TRUE(c.refused(c.plan(), RAPT_ERROR_ARGUMENT, "null data pointer"));
}

TEST(CApi, ARowOfDistanceWithoutATableIsRefused) {
  Call c;
  const int64_t shape[] = {8};
  const rapt_tensor bias = Call::tensor(c.query_data, shape, 1, 1);
  const rapt_named_tensor named[] = {{"b", &bias}};
  c.score = {sizeof c.score, "relative(content_bias=b, center=3)", 1, named};
  c.options.relative = &c.score;
  EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, "center without a table"));
  EXPECT_TRUE(c.refused(c.plan(), RAPT_ERROR_ARGUMENT, "center without a table"));
}

TEST(CApi, Cancelled) {
  Call c;
  rapt_cancel_token* token = rapt_cancel_token_create();
  ASSERT_NE(token, nullptr);
  c.context.cancel = token;
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
  std::thread([token] { rapt_cancel_token_cancel(token); }).join();
  EXPECT_EQ(c.forward(), RAPT_ERROR_CANCELLED);
  rapt_cancel_token_destroy(token);
  rapt_cancel_token_cancel(nullptr);
  rapt_cancel_token_destroy(nullptr);
}

TEST(CApi, OutOfMemory) {
  Call c;
  c.options.mask_count = 0;
  rapt_status status;
  {
    const failing_new::Scope none;
    status = c.forward();
    EXPECT_EQ(rapt_cancel_token_create(), nullptr);
  }
  EXPECT_TRUE(c.refused(status, RAPT_ERROR_OUT_OF_MEMORY, "out of memory"));
}

TEST(CApi, TheRefusedArgument) {
  Call c;
  c.key_shape[3] = 7;
  EXPECT_EQ(c.forward(), RAPT_ERROR_SHAPE);
  EXPECT_STREQ(rapt_last_error_argument(), "key");
  Call limited;
  limited.context.memory_limit = -1;  // no argument of the attention itself
  EXPECT_EQ(limited.forward(), RAPT_ERROR_ARGUMENT);
  EXPECT_STREQ(rapt_last_error_argument(), "");
}

TEST(CApi, MessagesBelongToTheirThread) {
  Call c;
  c.mask.spec = "casual";
  EXPECT_EQ(c.forward(), RAPT_ERROR_UNKNOWN_NAME);
  std::string other = "not read";
  std::thread([&other] { other = rapt_last_error(); }).join();
  EXPECT_EQ(other, "");
  c.mask.spec = "causal";
  EXPECT_EQ(c.forward(), RAPT_OK);
  EXPECT_NE(std::string(rapt_last_error()),
            "");  // a success keeps the message of the last failure
}

TEST(CApi, StatusNames) {
  const struct {
    rapt_status status;
    const char* name;
  } names[] = {{RAPT_OK, "ok"},
               {RAPT_ERROR_SHAPE, "shape"},
               {RAPT_ERROR_DTYPE, "dtype"},
               {RAPT_ERROR_ARGUMENT, "argument"},
               {RAPT_ERROR_OVERLAP, "overlap"},
               {RAPT_ERROR_OVERFLOW, "overflow"},
               {RAPT_ERROR_UNKNOWN_NAME, "unknown_name"},
               {RAPT_ERROR_UNSUPPORTED, "unsupported"},
               {RAPT_ERROR_MEMORY_LIMIT, "memory_limit"},
               {RAPT_ERROR_FORMAT, "format"},
               {RAPT_ERROR_IO, "io"},
               {RAPT_ERROR_CANCELLED, "cancelled"},
               {RAPT_ERROR_EXECUTOR, "executor"},
               {RAPT_ERROR_OUT_OF_MEMORY, "out_of_memory"},
               {RAPT_ERROR_INTERNAL, "internal"},
               {13, "unknown"},
               {-1, "unknown"}};
  for (const auto& n : names) EXPECT_STREQ(rapt_status_name(n.status), n.name);
}

TEST(CApi, BuildInfoBeginsWithTheVersion) {
  EXPECT_EQ(std::string(rapt_build_info()).rfind(std::string(rapt_version()) + " (commit ", 0), 0u);
}

}  // namespace
