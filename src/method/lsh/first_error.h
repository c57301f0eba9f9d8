#pragma once
// Keeps the first error of tasks, which must not throw, until their run has ended.
#include <exception>
#include <mutex>

namespace rapt {

class FirstError {
 public:
  // Keeps the exception that is being handled.
  void keep() noexcept {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;  // guards error_ while tasks run
  std::exception_ptr error_;
};

}  // namespace rapt
