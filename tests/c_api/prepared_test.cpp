// Prepared calls: options are read once, kept as long as needed, used by any number of threads, and
// no call allocates. same_bits_test.cpp compares the results with those of the plain call.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "failing_new.h"
#include "rapt/attention.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/rapt_c.h"

namespace {

constexpr int64_t kLength = 6, kDim = 4;
constexpr size_t kElements = kLength * kDim;

rapt_tensor tensor_of(void* data, rapt_dtype dtype, const int64_t* shape, int rank) {
  return {sizeof(rapt_tensor), data, dtype, RAPT_CPU, 0, rank, shape, nullptr};
}

// A small call with masks; tests overwrite its descriptors after rapt_prepare().
struct Small {
  int64_t shape[2] = {kLength, kDim}, statistic_shape[1] = {kLength}, one[1] = {1};
  float input[kElements], output[kElements] = {}, lse[kLength] = {};
  int64_t lengths[1] = {4};
  rapt_tensor x = tensor_of(input, RAPT_F32, shape, 2);
  rapt_tensor y = tensor_of(output, RAPT_F32, shape, 2);
  rapt_tensor statistic = tensor_of(lse, RAPT_F32, statistic_shape, 1);
  rapt_tensor lengths_tensor = tensor_of(lengths, RAPT_I64, one, 0);
  rapt_named_tensor named[1] = {{"n", &lengths_tensor}};
  char spec[32] = "causal & lengths(n)";
  rapt_variant mask = {sizeof mask, spec, 1, named};
  const rapt_variant* masks[1] = {&mask};
  rapt_options options = {};
  rapt_results results = {};
  rapt_prepared* prepared = nullptr;
  std::vector<std::byte> workspace;

  Small() {
    for (size_t i = 0; i < kElements; ++i) input[i] = static_cast<float>(i % 5) - 2;
    options.size = sizeof options;
    options.mask_count = 1;
    options.masks = masks;
    results.size = sizeof results;
    results.output = &y;
    results.statistic = &statistic;
  }
  Small(const Small&) = delete;
  ~Small() { rapt_prepared_destroy(prepared); }

  rapt_status prepare() { return rapt_prepare(&options, nullptr, &prepared); }
  rapt_status forward() {
    return rapt_prepared_forward(prepared, &x, &x, &x, &results,
                                 workspace.empty() ? nullptr : workspace.data(), workspace.size());
  }
  void give_workspace() {
    size_t bytes = 0;
    ASSERT_EQ(rapt_prepared_workspace_bytes(prepared, &x, &x, &x, &bytes), RAPT_OK)
        << rapt_last_error();
    workspace.resize(bytes);
  }
  std::vector<float> expected_output() const {
    const rapt::TensorView view(input, {kLength, kDim});
    const rapt::Causal causal;
    const rapt::Lengths padding(rapt::TensorView(lengths, {1}).slice(0, 0, 1));
    rapt::Lengths scalar;
    scalar.lengths = padding.lengths;
    scalar.lengths.rank = 0;
    rapt::AttentionOptions cpp_options;
    cpp_options.masks = {&causal, &scalar};
    rapt::AttentionResult result =
        rapt::scaled_dot_product_attention(view, view, view, cpp_options);
    const auto values = result.output.values<float>();
    return {values.begin(), values.end()};
  }
  bool output_is(const std::vector<float>& expected) const {
    return std::memcmp(output, expected.data(), sizeof output) == 0;
  }
};

// Neither the prepared call with masks nor the plain call without masks allocates.
TEST(Prepared, WithAWorkspaceNoCallAllocates) {
  Small s;
  ASSERT_EQ(s.prepare(), RAPT_OK) << rapt_last_error();
  s.give_workspace();
  rapt_status status = s.forward();  // the first call of a process may initialise things
  ASSERT_EQ(status, RAPT_OK) << rapt_last_error();
  {
    const failing_new::Scope none;
    status = s.forward();
  }
  EXPECT_EQ(status, RAPT_OK) << rapt_last_error();
  EXPECT_TRUE(s.output_is(s.expected_output()));

  const rapt_variant softmax = {sizeof softmax, "softmax", 0, nullptr};
  s.options.mask_count = 0;
  s.options.normalizer = &softmax;
  const rapt_options* const without_masks[] = {nullptr, &s.options};
  for (const rapt_options* options : without_masks) {
    rapt_status plain;
    {
      const failing_new::Scope none;
      plain = rapt_attention_forward(&s.x, &s.x, &s.x, options, &s.results, s.workspace.data(),
                                     s.workspace.size(), nullptr);
    }
    EXPECT_EQ(plain, RAPT_OK) << rapt_last_error();
  }
  s.workspace.clear();
  {
    const failing_new::Scope none;
    status = s.forward();
  }
  EXPECT_EQ(status, RAPT_ERROR_OUT_OF_MEMORY);
}

TEST(Prepared, NoMaskOrScoreOfTheCatalogueAllocatesInACall) {
  Small s;
  int64_t ids[kLength] = {0, 0, 1, 1, 1, 2}, starts[] = {0, 2, 5, kLength};
  bool allowed[kLength * kLength];
  for (size_t i = 0; i < sizeof allowed; ++i) allowed[i] = i % 3 != 0;
  const int64_t starts_shape[] = {4}, allowed_shape[] = {kLength, kLength};
  const rapt_tensor d = tensor_of(ids, RAPT_I64, s.statistic_shape, 1);
  const rapt_tensor b = tensor_of(starts, RAPT_I64, starts_shape, 1);
  const rapt_tensor m = tensor_of(allowed, RAPT_BOOL, allowed_shape, 2);
  const rapt_named_tensor named[] = {
      {"n", &s.lengths_tensor}, {"ids", &d}, {"starts", &b}, {"m", &m}};
  s.mask = {sizeof s.mask,
            "lengths(n) & !(window(1, 0) & boolean(m)) & (causal | prefix(2)) & "
            "(documents(ids) | documents_by_starts(starts))",
            4, named};
  const rapt_variant score = {sizeof score, "softcap(2)", 0, nullptr};
  const rapt_variant* scores[] = {&score};
  s.options.score_count = 1;
  s.options.scores = scores;
  ASSERT_EQ(s.prepare(), RAPT_OK) << rapt_last_error();
  s.give_workspace();
  ASSERT_EQ(s.forward(), RAPT_OK) << rapt_last_error();
  const failing_new::Scope none;
  const rapt_status status = s.forward();
  EXPECT_EQ(status, RAPT_OK);
}

TEST(Prepared, DescriptorsTextsAndListsAreCopied) {
  Small s;
  std::vector<int64_t> rows = {5, 0}, heads = {0}, map_heads = {0};
  rapt_weights_request weights = {sizeof weights,     0, 0, 1, heads.data(), 2, rows.data(),
                                  RAPT_STAGE_WEIGHTS, 0};
  rapt_map_request map = {sizeof map, 2, 2, RAPT_POOL_SUM, 0, 1, map_heads.data()};
  s.options.weights = &weights;
  s.options.map = &map;
  ASSERT_EQ(s.prepare(), RAPT_OK) << rapt_last_error();
  rows.assign(2, 1000);
  heads.assign(1, 1000);
  map_heads.assign(1, 1000);
  weights = {};
  map = {};
  s.options = {};
  s.mask = {};
  s.masks[0] = nullptr;
  s.named[0] = {};
  s.lengths_tensor = {};
  s.one[0] = -9;
  std::memset(s.spec, 'x', sizeof s.spec);

  float some[1 * 2 * kLength], cells[1 * 2 * 2];
  const int64_t some_shape[] = {1, 2, kLength}, cells_shape[] = {1, 2, 2};
  const rapt_tensor w = tensor_of(some, RAPT_F32, some_shape, 3);
  const rapt_tensor m = tensor_of(cells, RAPT_F32, cells_shape, 3);
  s.results.weights = &w;
  s.results.map = &m;
  ASSERT_EQ(s.forward(), RAPT_OK) << rapt_last_error();
  EXPECT_TRUE(s.output_is(s.expected_output()));
  EXPECT_EQ(some[4], 0);           // key 4 is masked for row 5
  EXPECT_EQ(some[kLength], 1);     // row 0 attends to key 0 alone
  EXPECT_EQ(cells[1], 0);          // rows 0 to 2 attend to no key from 3 on
  EXPECT_NEAR(cells[0], 3, 1e-6);  // three rows whose weights sum to 1
}

// As when a key cache grows: tensors of other lengths and new elements of masks, with the same
// handle.
TEST(Prepared, ElementsAreReadAnewAndLengthsMayChange) {
  Small s;
  ASSERT_EQ(s.prepare(), RAPT_OK) << rapt_last_error();
  s.give_workspace();
  for (const int64_t length : {4, 1, 6}) {
    s.lengths[0] = length;
    ASSERT_EQ(s.forward(), RAPT_OK) << rapt_last_error();
    EXPECT_TRUE(s.output_is(s.expected_output())) << length;
  }
  s.lengths[0] = kLength + 1;
  EXPECT_EQ(s.forward(), RAPT_ERROR_ARGUMENT);

  s.lengths[0] = 3;
  s.shape[0] = s.statistic_shape[0] = 3;
  EXPECT_EQ(s.forward(), RAPT_OK) << rapt_last_error();
}

TEST(Prepared, ServesThreadsAtOnce) {
  Small s;
  ASSERT_EQ(s.prepare(), RAPT_OK) << rapt_last_error();
  const std::vector<float> expected = s.expected_output();
  std::vector<int> failures(4);
  std::vector<std::thread> threads;
  for (int& failed : failures)
    threads.emplace_back([&s, &expected, &failed] {
      Small own;
      for (int i = 0; i < 100; ++i) {
        std::memset(own.output, 0, sizeof own.output);
        failed += rapt_prepared_forward(s.prepared, &s.x, &s.x, &s.x, &own.results, nullptr, 0) !=
                      RAPT_OK ||
                  !own.output_is(expected);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const int failed : failures) EXPECT_EQ(failed, 0);
}

TEST(Prepared, Mistakes) {
  Small s;
  const auto answers = [](rapt_status got, rapt_status status, const char* words) {
    return got == status && std::string(rapt_last_error()).find(words) != std::string::npos;
  };
  EXPECT_TRUE(answers(rapt_prepare(&s.options, nullptr, nullptr), RAPT_ERROR_ARGUMENT,
                      "prepared is a null pointer"));
  std::strcpy(s.spec, "casual");
  s.prepared = reinterpret_cast<rapt_prepared*>(&s);
  EXPECT_TRUE(answers(s.prepare(), RAPT_ERROR_UNKNOWN_NAME, "did you mean causal?"));
  EXPECT_EQ(s.prepared, nullptr);
  rapt_plan_info info = {};
  info.size = sizeof info;
  size_t bytes = 0;
  EXPECT_TRUE(answers(s.forward(), RAPT_ERROR_ARGUMENT, "prepared is a null pointer"));
  EXPECT_TRUE(answers(rapt_prepared_plan(nullptr, &s.x, &s.x, &s.x, &info), RAPT_ERROR_ARGUMENT,
                      "prepared is a null pointer"));
  EXPECT_TRUE(answers(rapt_prepared_workspace_bytes(nullptr, &s.x, &s.x, &s.x, &bytes),
                      RAPT_ERROR_ARGUMENT, "prepared is a null pointer"));
  std::strcpy(s.spec, "causal");
  {
    const failing_new::Scope none;
    EXPECT_EQ(s.prepare(), RAPT_ERROR_OUT_OF_MEMORY);
  }
  ASSERT_EQ(s.prepare(), RAPT_OK) << rapt_last_error();
  EXPECT_TRUE(answers(rapt_prepared_plan(s.prepared, &s.x, &s.x, nullptr, &info),
                      RAPT_ERROR_ARGUMENT, "value is a null pointer"));
  EXPECT_TRUE(answers(rapt_prepared_plan(s.prepared, &s.x, &s.x, &s.x, nullptr),
                      RAPT_ERROR_ARGUMENT, "rapt_plan_info"));
  EXPECT_TRUE(answers(rapt_prepared_workspace_bytes(s.prepared, &s.x, &s.x, &s.x, nullptr),
                      RAPT_ERROR_ARGUMENT, "workspace_bytes is a null pointer"));
  s.y.data = s.input;
  EXPECT_TRUE(answers(s.forward(), RAPT_ERROR_OVERLAP, "overlaps"));
  rapt_prepared_destroy(nullptr);
}

}  // namespace
