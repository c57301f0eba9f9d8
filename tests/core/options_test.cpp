// Options that contradict each other or their arguments are rejected: no request is silently
// ignored.
#include <gtest/gtest.h>

#include <string>

#include "rapt/rapt.h"

namespace {

using rapt::ErrorCode;

void expect_refused(const rapt::AttentionOptions& options, const rapt::Context& context,
                    const char* says) {
  const rapt::Tensor x(rapt::DType::f32, {6, 4});
  try {
    (void)rapt::plan(x, x, x, options, context);
    FAIL() << "not refused: " << says;
  } catch (const rapt::Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::argument) << error.what();
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

TEST(Options, StartsOfKeysAloneAreRefused) {
  const int64_t starts[] = {0, 2, 6};
  rapt::AttentionOptions options;
  options.packed.key_starts = rapt::TensorView(starts, {3});
  expect_refused(options, {}, "key_starts without packed.query_starts");
}

TEST(Options, ThreadsBesideAnExecutorAreRefused) {
  rapt::ThreadPool pool(1);
  expect_refused({}, {.executor = &pool, .threads = 1}, "beside an executor");
}

// A part that needs more state than when the combination was made would overwrite another mask's.
TEST(Options, PartsThatWereAssignedAnewAreRefused) {
  const rapt::Causal causal;
  const rapt::Prefix prefix(2);
  rapt::And part{&causal};
  const rapt::Or whole{&part, &prefix};
  const rapt::Not above(&whole);
  part = rapt::And{&causal, &prefix};
  expect_refused({.masks = {&whole}}, {}, "assigned anew");
  expect_refused({.masks = {&above}}, {}, "assigned anew");
  part = rapt::And{&prefix};  // the same size as before
  const rapt::Tensor x(rapt::DType::f32, {6, 4});
  EXPECT_EQ(rapt::plan(x, x, x, {.masks = {&whole}}).allowed_scores, 6 * 2);
}

TEST(Options, AnUnknownPrecisionIsRefused) {
  expect_refused({.precision = static_cast<rapt::Precision>(7)}, {}, "unknown precision");
}

TEST(Options, AnUnknownBiasOrderIsRefused) {
  expect_refused({.bias_order = static_cast<rapt::BiasOrder>(2)}, {}, "unknown bias_order");
}

// A plan reads no element, so shapes may exceed this machine's memory.
TEST(Options, PairsBeyondInt64AreNotNegative) {
  float* const nothing = nullptr;
  const rapt::TensorView x(nothing, {int64_t{1} << 25, int64_t{1} << 20, 1});
  const rapt::Plan plan = rapt::plan(x, x, x);
  EXPECT_EQ(plan.allowed_scores, INT64_MAX);
  EXPECT_GT(plan.tiles_computed, 0);
}

TEST(Options, RefusedParametersSayWhatIsExpected) {
  const rapt::Softcap tiny(1e-40);
  expect_refused({.scores = {tiny}}, {}, "cap = 1e-40 is out of range; expected 1e-30 to 1e+30");
}

}  // namespace
