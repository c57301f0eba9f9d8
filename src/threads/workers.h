#pragma once
// How many threads may work on a call, and how its items are joined to tasks.
#include <algorithm>
#include <cstdint>

#include "rapt/context.h"

namespace rapt {

class Workers {
 public:
  // `work`: multiplications and additions of the call. Throws Error(argument).
  Workers(double work, const Context& context);

  // The threads that the work pays for, at most all.
  int worthwhile() const noexcept { return worth_ < most_ ? static_cast<int>(worth_) : most_; }
  // The same for at most so many tasks. An executor that cannot use fewer gets all threads or one.
  int of_tasks(int64_t tasks) const noexcept {
    if (!can_be_fewer_) return to_executor() ? most_ : 1;
    return static_cast<int>(std::clamp<int64_t>(tasks, 1, worthwhile()));
  }
  // Whether there is enough work for a caller's executor.
  bool to_executor() const noexcept { return worth_ >= 2; }

  // How many neighbouring items share a task, so that a task pays for being fetched. Every one of
  // `workers` threads gets several tasks.
  int64_t items_per_task(int64_t items, int workers) const noexcept;

 private:
  double work_, worth_;        // worth_: threads that pay for their wake-up
  int most_ = 1;               // threads of the executor, or of the library
  bool can_be_fewer_ = false;  // can a run use some of them? Otherwise it uses all or one.
};

}  // namespace rapt
