// Memory at a million tokens: a window keeps the time small; the matrix would take 4 TiB.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

int64_t status_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1);
  return -1;
}

TEST(MillionTokens, MemoryGrowsByTheWorkspaceOnly) {
  constexpr int64_t kTokens = 1'000'000, kDim = 4;
  const Tensor x = filled(DType::f32, {kTokens, kDim}, 0.5);
  Tensor output = filled(DType::f32, {kTokens, kDim}, 0), lse = filled(DType::f32, {kTokens}, 0);
  const rapt::Window window(15, 0);
  AttentionOptions options;
  options.masks = {&window};
  rapt::Context context;
  context.threads = 1;                 // each has a stack
  context.memory = rapt::Memory::low;  // else sets with tile registers have all keys packed
  std::vector<std::byte> workspace(rapt::workspace_bytes(x, x, x, options, context));
  EXPECT_LT(workspace.size(), size_t{1} << 20);
  // Counts only pages that the process has written to; pages of code are loaded as they run.
  const int64_t before = status_kib("RssAnon");
  if (before < 0) GTEST_SKIP() << "no RssAnon in /proc/self/status";
  if (RAPT_SANITIZED) GTEST_SKIP() << "a sanitizer's shadow of the memory grows with it";
  scaled_dot_product_attention(x, x, x, options, {{output, lse}}, workspace, context);
  EXPECT_LT(status_kib("RssAnon") - before, 256);            // KiB; not a byte for a token
  EXPECT_EQ(get(output, Dims{kTokens - 1, kDim - 1}), 0.5);  // the mean of equal values
}

}  // namespace
}  // namespace laws
