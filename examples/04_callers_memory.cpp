// Shows the call for engines: the caller's buffers, workspace and threads, another layout,
// progress.
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "rapt/rapt.h"

namespace {
// Starts threads for every call. An engine passes the tasks to its own pool instead.
class Threads final : public rapt::Executor {
 public:
  explicit Threads(int count) : count_(count) {}
  int concurrency() const noexcept override { return count_; }
  void run(int64_t tasks, Task task, void* argument) override {
    std::atomic<int64_t> next{0};
    std::vector<std::jthread> threads;  // joins on destruction, also if a thread cannot be started
    for (int worker = 0; worker < count_; ++worker)
      threads.emplace_back([&next, tasks, task, argument, worker] {
        for (int64_t t = next++; t < tasks; t = next++) task(argument, t, worker);
      });
  }

 private:
  int count_;
};

// Prints each tenth when it is reached. Never called by two threads at once.
void print_tenths(void* user, double fraction) {
  int& tenths = *static_cast<int*>(user);
  if (fraction * 10 < tenths + 1) return;
  tenths = static_cast<int>(fraction * 10);
  std::printf(" %d %%", tenths * 10);
}
}  // namespace

int main() try {
  // In memory [batch, length, heads, dim], the layout of projections and of flash-attention.
  constexpr int64_t batch = 2, length = 1024, heads = 8, dim = 64;
  std::vector<float> input(batch * length * heads * dim), output(input.size());
  for (size_t i = 0; i < input.size(); ++i) input[i] = std::sin(static_cast<float>(i));
  std::vector<float> lse(batch * heads * length);  // [batch, heads, length]

  // rapt needs [batch, heads, length, dim]: exchanges two dimensions of the view, copies nothing.
  const auto x =
      rapt::TensorView(std::as_const(input).data(), {batch, length, heads, dim}).transposed(1, 2);
  rapt::AttentionOutputs outputs;
  outputs.state.output =
      rapt::TensorView(output.data(), {batch, length, heads, dim}).transposed(1, 2);
  outputs.state.statistic = rapt::TensorView(lse.data(), {batch, heads, length});

  const rapt::Causal causal;
  const rapt::AttentionOptions options{.masks = {&causal}};
  Threads threads(4);
  int tenths = 0;
  rapt::Context context;
  context.executor = &threads;
  context.progress = {print_tenths, &tenths};

  // Once per shape; the workspace serves every later call. From here on rapt allocates nothing.
  std::vector<std::byte> workspace(rapt::workspace_bytes(x, x, x, options, context));
  std::printf("workspace %zu bytes for 4 workers\n", workspace.size());
  rapt::scaled_dot_product_attention(x, x, x, options, outputs, workspace, context);

  const auto alone = rapt::scaled_dot_product_attention(x, x, x, options);  // in this thread
  const bool same = std::memcmp(alone.statistic.data(), lse.data(), lse.size() * 4) == 0;
  std::printf("\nlse with one thread: %s\n", same ? "the same bits" : "NOT THE SAME");
  return same ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
