// Shows attention on the threads of an engine, and on rapt's own pool for comparison.
//
// An engine with a thread pool gives rapt an Executor of two functions. Here the pool is the
// smallest there can be: a thread per worker, that waits for the next call. The bits of a result
// never depend on who runs the tasks, nor on how many there are.
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <thread>
#include <vector>

#include "rapt/rapt.h"

namespace {

// One call at a time; each worker takes the next task until there is none.
class EngineThreads final : public rapt::Executor {
 public:
  explicit EngineThreads(int workers) : workers_(workers), begin_(workers), end_(workers) {
    for (int worker = 1; worker < workers; ++worker)  // the caller is worker 0
      threads_.emplace_back([this, worker] {
        for (;;) {
          begin_.arrive_and_wait();
          if (!task_) return;
          work(worker);
        }
      });
  }
  ~EngineThreads() override {
    task_ = nullptr;
    begin_.arrive_and_wait();
  }
  int concurrency() const noexcept override { return workers_; }
  void run(int64_t tasks, Task task, void* argument) override {
    task_ = task, argument_ = argument, tasks_ = tasks, next_ = 0;
    begin_.arrive_and_wait();
    work(0);
  }

 private:
  void work(int worker) {
    for (int64_t t = next_++; t < tasks_; t = next_++) task_(argument_, t, worker);
    end_.arrive_and_wait();
  }

  const int workers_;
  std::barrier<> begin_, end_;
  Task task_ = nullptr;
  void* argument_ = nullptr;
  int64_t tasks_ = 0;
  std::atomic<int64_t> next_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace

int main() try {
  constexpr int64_t heads = 4, length = 500, dim = 64;
  std::vector<float> numbers(heads * length * dim);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
  const rapt::TensorView x(numbers.data(), {heads, length, dim});  // query, key and value at once

  rapt::ThreadPool one_thread(1);
  const auto attention_on = [&](rapt::Executor& executor) {
    rapt::Context context;
    context.executor = &executor;
    return rapt::scaled_dot_product_attention(x, x, x, {}, context);
  };
  const rapt::AttentionResult expected = attention_on(one_thread);

  bool all_same = true;
  const auto compare = [&](const char* name, rapt::Executor& executor) {
    const rapt::AttentionResult result = attention_on(executor);
    const bool same =
        std::memcmp(result.output.data(), expected.output.data(), numbers.size() * 4) == 0;
    std::printf("%-28s %2d at once: %s\n", name, executor.concurrency(),
                same ? "the same bits" : "NOT THE SAME");
    all_same &= same;
  };
  EngineThreads two(2), seven(7);
  compare("the engine's threads", two);
  compare("the engine's threads", seven);
  rapt::ThreadPool pool(3);
  compare("a pool of rapt's", pool);
  compare("the pool of the process", rapt::default_pool());
  return all_same ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
