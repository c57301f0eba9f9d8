// Statuses, their names, and the message and the argument of the last failure.
#include "c_api/failures.h"

#include <cstdio>
#include <new>

namespace rapt::c_api {
namespace {

// Plain arrays, so that a message can be kept even if there is no memory.
thread_local char last_error[1024] = "";
thread_local char last_argument[32] = "";

void keep_message(const char* message, const char* argument = "") noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  std::snprintf(last_argument, sizeof last_argument, "%s", argument);
}

// The numbers of the C interface are part of its ABI; those of the C++ interface may change.
rapt_status status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::shape:
      return RAPT_ERROR_SHAPE;
    case ErrorCode::dtype:
      return RAPT_ERROR_DTYPE;
    case ErrorCode::argument:
      return RAPT_ERROR_ARGUMENT;
    case ErrorCode::overlap:
      return RAPT_ERROR_OVERLAP;
    case ErrorCode::overflow:
      return RAPT_ERROR_OVERFLOW;
    case ErrorCode::unknown_name:
      return RAPT_ERROR_UNKNOWN_NAME;
    case ErrorCode::unsupported:
      return RAPT_ERROR_UNSUPPORTED;
    case ErrorCode::memory_limit:
      return RAPT_ERROR_MEMORY_LIMIT;
    case ErrorCode::format:
      return RAPT_ERROR_FORMAT;
    case ErrorCode::io:
      return RAPT_ERROR_IO;
    case ErrorCode::cancelled:
      return RAPT_ERROR_CANCELLED;
  }
  return RAPT_ERROR_INTERNAL;
}

}  // namespace

void bad_argument(const std::string& message) { throw Error(ErrorCode::argument, message); }

ExecutorFailed::ExecutorFailed(int answer)
    : std::runtime_error("the executor's run() returned " + std::to_string(answer) +
                         "; expected 0, after all tasks") {}

rapt_status keep_failure() noexcept {
  try {
    throw;
  } catch (const Error& error) {
    keep_message(error.what(), error.argument());
    return status_of(error.code());
  } catch (const ExecutorFailed& error) {
    keep_message(error.what());
    return RAPT_ERROR_EXECUTOR;
  } catch (const std::bad_alloc&) {
    keep_message("out of memory");
    return RAPT_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    keep_message(error.what());
    return RAPT_ERROR_INTERNAL;
  } catch (...) {
    keep_message("an exception that rapt does not know");
    return RAPT_ERROR_INTERNAL;
  }
}

}  // namespace rapt::c_api

extern "C" {

const char* rapt_last_error(void) { return rapt::c_api::last_error; }
const char* rapt_last_error_argument(void) { return rapt::c_api::last_argument; }

const char* rapt_status_name(rapt_status status) {
  static constexpr struct {
    rapt_status status;
    const char* name;
  } kNames[] = {{RAPT_OK, "ok"},
                {RAPT_ERROR_SHAPE, "shape"},
                {RAPT_ERROR_DTYPE, "dtype"},
                {RAPT_ERROR_ARGUMENT, "argument"},
                {RAPT_ERROR_OVERLAP, "overlap"},
                {RAPT_ERROR_OVERFLOW, "overflow"},
                {RAPT_ERROR_UNKNOWN_NAME, "unknown_name"},
                {RAPT_ERROR_UNSUPPORTED, "unsupported"},
                {RAPT_ERROR_MEMORY_LIMIT, "memory_limit"},
                {RAPT_ERROR_FORMAT, "format"},
                {RAPT_ERROR_IO, "io"},
                {RAPT_ERROR_CANCELLED, "cancelled"},
                {RAPT_ERROR_EXECUTOR, "executor"},
                {RAPT_ERROR_OUT_OF_MEMORY, "out_of_memory"},
                {RAPT_ERROR_INTERNAL, "internal"}};
  for (const auto& known : kNames)
    if (known.status == status) return known.name;
  return "unknown";
}

}  // extern "C"
