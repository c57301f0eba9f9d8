#pragma once
// A valid call of the C interface; each test spoils one part of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rapt/rapt_c.h"

inline constexpr float kUntouched = 77;  // what the outputs hold before a call

struct Call {
  int64_t query_shape[4] = {1, 2, 5, 8};
  int64_t key_shape[4] = {1, 2, 6, 8};
  int64_t value_shape[4] = {1, 2, 6, 4};
  int64_t output_shape[4] = {1, 2, 5, 4};
  int64_t statistic_shape[3] = {1, 2, 5};
  int64_t weights_shape[4] = {1, 2, 5, 6};
  float query_data[80] = {}, key_data[96] = {}, value_data[48] = {};
  float output_data[40], statistic_data[10], weights_data[60];
  rapt_tensor query = tensor(query_data, query_shape, 4, 1);
  rapt_tensor key = tensor(key_data, key_shape, 4, 1);
  rapt_tensor value = tensor(value_data, value_shape, 4, 1);
  rapt_tensor output = tensor(output_data, output_shape, 4, 0);
  rapt_tensor statistic = tensor(statistic_data, statistic_shape, 3, 0);
  rapt_tensor weights = tensor(weights_data, weights_shape, 4, 0);
  rapt_variant mask = {sizeof mask, "causal", 0, nullptr};
  const rapt_variant* masks[1] = {&mask};
  rapt_variant normalizer = {sizeof normalizer, "softmax", 0, nullptr};
  rapt_variant score = {sizeof score, nullptr, 0, nullptr};
  const rapt_variant* scores[1] = {&score};
  rapt_weights_request request = {};
  rapt_map_request map_request = {};
  rapt_options options = {};
  rapt_results results = {};
  rapt_executor executor = {sizeof executor, nullptr, [](void*) { return 1; }, run_in_order};
  rapt_context context = {};
  rapt_plan_info info = {};
  std::vector<std::byte> workspace;

  Call() {
    info.size = sizeof info;
    request.size = sizeof request;
    map_request.size = sizeof map_request;
    map_request.rows = map_request.columns = 2;
    options.size = sizeof options;
    options.mask_count = 1;
    options.masks = masks;
    options.normalizer = &normalizer;
    results.size = sizeof results;
    results.output = &output;
    results.statistic = &statistic;
    context.size = sizeof context;
    context.executor = &executor;
    for (float& x : output_data) x = kUntouched;
  }
  Call(const Call&) = delete;

  static rapt_tensor tensor(float* data, const int64_t* shape, int rank, int read_only) {
    return {sizeof(rapt_tensor), data, RAPT_F32, RAPT_CPU, read_only, rank, shape, nullptr};
  }
  static int run_in_order(void*, int64_t tasks, rapt_task task, void* argument) {
    for (int64_t t = 0; t < tasks; ++t) task(argument, t, 0);
    return 0;
  }

  void scores_are(const char* spec) {
    score.spec = spec;
    options.score_count = 1;
    options.scores = scores;
  }

  rapt_status forward() {
    return rapt_attention_forward(&query, &key, &value, &options, &results,
                                  workspace.empty() ? nullptr : workspace.data(), workspace.size(),
                                  &context);
  }
  rapt_status plan() { return rapt_plan(&query, &key, &value, &options, &context, &info); }

  // Whether the call failed with this status and these words and wrote nothing.
  testing::AssertionResult refused(rapt_status got, rapt_status status, const char* words) const {
    const std::string message = rapt_last_error();
    if (got != status)
      return testing::AssertionFailure() << "got " << rapt_status_name(got) << " (" << message
                                         << "), expected " << rapt_status_name(status);
    if (message.find(words) == std::string::npos)
      return testing::AssertionFailure()
             << "message: " << message << "\nexpected: ..." << words << "...";
    for (const float x : output_data)
      if (x != kUntouched) return testing::AssertionFailure() << "the output was written to";
    return testing::AssertionSuccess();
  }
  testing::AssertionResult forward_refused(rapt_status status, const char* words) {
    return refused(forward(), status, words);
  }
};
