// Structs of callers built against an earlier or a later version, and size fields that no version
// has.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "rapt/rapt_c.h"
#include "spoiled_call.h"

namespace {

#define SIZE_UP_TO(type, member) (offsetof(type, member) + sizeof(type::member))

TEST(CApi, WrongSizeFields) {
  const struct {
    const char* type;
    size_t first;  // size of the struct's first version, the least that is valid
    size_t* (*field)(Call&);
  } structs[] = {
      {"rapt_tensor", sizeof(rapt_tensor), [](Call& c) { return &c.value.size; }},
      {"rapt_tensor", sizeof(rapt_tensor), [](Call& c) { return &c.output.size; }},
      {"rapt_variant", sizeof(rapt_variant), [](Call& c) { return &c.mask.size; }},
      {"rapt_variant", sizeof(rapt_variant), [](Call& c) { return &c.normalizer.size; }},
      {"rapt_options", SIZE_UP_TO(rapt_options, weights), [](Call& c) { return &c.options.size; }},
      {"rapt_results", SIZE_UP_TO(rapt_results, weights), [](Call& c) { return &c.results.size; }},
      {"rapt_executor", sizeof(rapt_executor), [](Call& c) { return &c.executor.size; }},
      {"rapt_context", SIZE_UP_TO(rapt_context, memory_limit),
       [](Call& c) { return &c.context.size; }},
      {"rapt_weights_request", SIZE_UP_TO(rapt_weights_request, heads),
       [](Call& c) {
         c.options.weights = &c.request;
         return &c.request.size;
       }},
      {"rapt_map_request", sizeof(rapt_map_request),
       [](Call& c) {
         c.options.map = &c.map_request;
         return &c.map_request.size;
       }},
  };
  for (const auto& s : structs) {
    Call c;
    size_t& size = *s.field(c);
    const size_t right = size;
    for (const size_t wrong : {size_t{0}, size_t{1}, s.first - 1, ~size_t{0}}) {
      size = wrong;
      EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, s.type)) << s.type << " " << wrong;
      EXPECT_NE(std::string(rapt_last_error()).find("is " + std::to_string(right)),
                std::string::npos)
          << rapt_last_error();
    }
  }
  Call c;
  c.info.size = SIZE_UP_TO(rapt_plan_info, matrix_bytes) - 1;
  EXPECT_TRUE(c.refused(c.plan(), RAPT_ERROR_ARGUMENT, "rapt_plan_info"));
}

// A caller built against the first version of the structs, with other data in memory after them.
TEST(CApi, SmallerStructsOfTheFirstVersionAreTaken) {
  Call c;
  const auto fill_behind = [](void* of, size_t first, size_t whole) {
    std::memset(static_cast<char*>(of) + first, 0x5A, whole - first);
  };
  c.options.size = SIZE_UP_TO(rapt_options, weights);
  c.results.size = SIZE_UP_TO(rapt_results, weights);
  c.context.size = SIZE_UP_TO(rapt_context, memory_limit);
  c.request.size = SIZE_UP_TO(rapt_weights_request, heads);
  fill_behind(&c.options, c.options.size, sizeof c.options);
  fill_behind(&c.results, c.results.size, sizeof c.results);
  fill_behind(&c.context, c.context.size, sizeof c.context);
  fill_behind(&c.request, c.request.size, sizeof c.request);
  EXPECT_EQ(c.plan(), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
  c.options.weights = &c.request;
  c.results.weights = &c.weights;
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
  // With their present size the same structs contain those data, which are rejected.
  c.options.size = sizeof c.options;
  EXPECT_EQ(c.forward(), RAPT_ERROR_ARGUMENT);
}

// Options of the version before dropout have none, whatever data follow them.
TEST(CApi, OptionsBeforeDropoutHaveNone) {
  Call c;
  c.options.dropout = 2;  // rejected where it is read
  EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, "dropout"));
  c.options.size = SIZE_UP_TO(rapt_options, reserved);
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
}

// Options of the version before relative positions have none, whatever data follow them.
TEST(CApi, OptionsBeforeRelativePositionsHaveNone) {
  Call c;
  const rapt_variant relative = {sizeof relative, nullptr, 0, nullptr};
  c.options.relative = &relative;  // rejected where it is read
  EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, "relative positions without spec"));
  c.options.size = SIZE_UP_TO(rapt_options, cosine_epsilon);
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
}

// Options of the version before rotated keys have none, whatever data follow them.
TEST(CApi, OptionsBeforeRotatedKeysHaveNone) {
  Call c;
  c.options.rotary_keys_are_rotated = 1;  // rejected where it is read
  c.options.rotary_query_step = c.options.rotary_key_step = 2;
  EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, "without an embedding"));
  c.options.size = SIZE_UP_TO(rapt_options, relative);
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
}

// Options of the version before caches have none, whatever data follow them.
TEST(CApi, OptionsBeforeCachesHaveNone) {
  Call c;
  const rapt_tensor wrong = {};  // rejected where it is read
  c.options.cache_lengths = c.options.cache_block_table = c.options.cache_starts = &wrong;
  EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, "rapt_tensor"));
  c.options.size = SIZE_UP_TO(rapt_options, rotary_key_step);
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
}

// Options of the version before methods have none, whatever data follow them.
TEST(CApi, OptionsBeforeMethodsHaveNone) {
  Call c;
  const rapt_variant method = {sizeof method, nullptr, 0, nullptr};
  c.options.method = &method;  // rejected where it is read
  EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, "a method without spec"));
  c.options.size = SIZE_UP_TO(rapt_options, reserved_at_end);
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
}

// A context of the version before `memory` has the default, whatever data follow it.
TEST(CApi, ContextsBeforeMemoryHaveNone) {
  Call c;
  c.context.memory = 2;  // rejected where it is read
  EXPECT_TRUE(c.forward_refused(RAPT_ERROR_ARGUMENT, "memory is 2"));
  c.context.size = SIZE_UP_TO(rapt_context, threads);
  EXPECT_EQ(c.forward(), RAPT_OK) << rapt_last_error();
}

// A plan of the version before `group_heads` is written up to its end.
TEST(CApi, PlansBeforeGroupHeadsEndBefore) {
  Call c;
  c.info.group_heads = 7;
  c.info.size = SIZE_UP_TO(rapt_plan_info, matrix_bytes);
  EXPECT_EQ(c.plan(), RAPT_OK) << rapt_last_error();
  EXPECT_GT(c.info.matrix_bytes, 0u);
  EXPECT_EQ(c.info.group_heads, 7);
}

// A caller built against a later version has larger structs.
TEST(CApi, LargerStructsAreTakenWhileTheUnknownPartIsZero) {
  struct LaterOptions {
    rapt_options known;
    int64_t later[3];
  };
  Call c;
  LaterOptions later = {c.options, {}};
  later.known.size = sizeof later;
  const auto forward = [&] {
    return rapt_attention_forward(&c.query, &c.key, &c.value, &later.known, &c.results, nullptr, 0,
                                  nullptr);
  };
  later.later[2] = 1;
  EXPECT_TRUE(c.refused(forward(), RAPT_ERROR_UNSUPPORTED, "update the library"));
  later.later[2] = 0;
  EXPECT_EQ(forward(), RAPT_OK) << rapt_last_error();

  struct LaterPlan {
    rapt_plan_info known;
    int64_t later;
    int64_t beyond;
  } plan = {{}, 5, 6};
  plan.known.size = offsetof(LaterPlan, beyond);
  EXPECT_EQ(rapt_plan(&c.query, &c.key, &c.value, nullptr, nullptr, &plan.known), RAPT_OK);
  EXPECT_EQ(plan.known.size, offsetof(LaterPlan, beyond));
  EXPECT_EQ(plan.later, 0);
  EXPECT_EQ(plan.beyond, 6);
}

}  // namespace
