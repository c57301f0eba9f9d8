// A plugin with its own copy of rapt, for the test that unloads it.
#include "rapt/thread_pool.h"
#include "threads/jobs.h"

extern "C" __attribute__((visibility("default"))) bool use_default_pool() {
  rapt::ThreadPool& pool = rapt::default_pool();
  return threads::Meeting(pool.concurrency()).held_by(pool);
}
