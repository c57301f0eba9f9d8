#pragma once
// Turns failures into a status and, per thread, a message of one sentence. No exception leaves the
// C interface.
#include <exception>
#include <stdexcept>
#include <string>

#include "rapt/error.h"
#include "rapt/rapt_c.h"

namespace rapt::c_api {

[[noreturn]] void bad_argument(const std::string& message);

// The caller's executor returned a number other than 0.
class ExecutorFailed : public std::runtime_error {
 public:
  explicit ExecutorFailed(int answer);
};

// Keeps the message of the exception that is being handled, and returns its status.
rapt_status keep_failure() noexcept;

// Runs a call and turns any exception into a status.
template <class Call>
rapt_status guarded(const Call& call) noexcept {
  try {
    call();
    return RAPT_OK;
  } catch (...) {
    return keep_failure();
  }
}

}  // namespace rapt::c_api
