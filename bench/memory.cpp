// Memory of the forward pass: how far does a call push the peak of the process's resident memory
// beyond its inputs and outputs? Causal, f32, d = 64, 2 heads.
//
//   bench_memory [--tokens N] [--limit-mib M]
//
// Exits with 1 if the growth exceeds the limit. The operating system's peak (VmHWM) and not a count
// of allocations: it sees all memory, whoever took it.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kHeads = 2, kHeadDim = 64;

// A line of /proc/self/status in KiB; throws if the system does not tell.
int64_t status_kib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line))
    if (line.starts_with(field + ":")) return std::atoll(line.c_str() + field.size() + 1);
  throw rapt::Error(rapt::ErrorCode::unsupported, "/proc/self/status has no " + field);
}

// Every page written, so that it is resident from now on.
rapt::Tensor touched(std::initializer_list<int64_t> shape) {
  rapt::Tensor t(rapt::DType::f32, shape);
  uint32_t x = 1;
  for (float& element : t.values<float>()) {
    x = x * 1664525 + 1013904223;  // Numerical Recipes' generator: any spread of numbers will do
    element = static_cast<float>(x >> 8) * 0x1p-24f - 0.5f;
  }
  return t;
}

bool parse(int argc, char** argv, int64_t& tokens, double& limit_mib) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string word = argv[i];
    if (word == "--tokens")
      tokens = std::atoll(argv[i + 1]);
    else if (word == "--limit-mib")
      limit_mib = std::atof(argv[i + 1]);
    else
      return false;
  }
  return argc % 2 == 1 && tokens > 0;
}

}  // namespace

int main(int argc, char** argv) try {
  int64_t tokens = 65536;
  double limit_mib = 32;
  if (!parse(argc, argv, tokens, limit_mib)) {
    std::fprintf(stderr, "usage: bench_memory [--tokens N] [--limit-mib M]\n");
    return 2;
  }
  const rapt::Tensor query = touched({kHeads, tokens, kHeadDim});
  const rapt::Tensor key = touched({kHeads, tokens, kHeadDim});
  const rapt::Tensor value = touched({kHeads, tokens, kHeadDim});
  rapt::Tensor output = touched({kHeads, tokens, kHeadDim});
  rapt::Tensor lse = touched({kHeads, tokens});
  const rapt::Causal causal;
  const rapt::Mask* masks[] = {&causal};
  rapt::AttentionOptions options;
  options.masks = masks;

  // From what is resident now, not from the peak so far: memory that was given back before would
  // otherwise hide growth.
  const int64_t before = status_kib("VmRSS");
  const rapt::Plan plan = rapt::plan(query, key, value, options);
  const std::unique_ptr<std::byte[]> workspace(new std::byte[plan.workspace_bytes]);
  rapt::scaled_dot_product_attention(query, key, value, options, {{output, lse}},
                                     {workspace.get(), plan.workspace_bytes});
  const double growth_mib = static_cast<double>(status_kib("VmHWM") - before) / 1024;

  const bool within = growth_mib <= limit_mib;
  std::printf(
      "n = %lld, d = %lld, causal, %lld heads: peak resident memory grew by %.1f MiB, %s the limit "
      "of %g MiB; workspace %.2f MiB, the matrices would take %.0f MiB\n",
      static_cast<long long>(tokens), static_cast<long long>(kHeadDim),
      static_cast<long long>(kHeads), growth_mib, within ? "within" : "beyond", limit_mib,
      static_cast<double>(plan.workspace_bytes) / (1 << 20),
      static_cast<double>(plan.matrix_bytes) / (1 << 20));
  return within ? 0 : 1;
} catch (const rapt::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
