#pragma once
// Errors that name the refused argument: Error::argument().
#include <string>

#include "rapt/error.h"

namespace rapt {

[[noreturn]] inline void fail(ErrorCode code, const char* argument, const std::string& message) {
  throw Error(code, message, argument);
}

// Runs a check. If it throws an Error, the error then names `argument`, instead of a tensor that
// the argument consists of.
template <class Check>
decltype(auto) check_argument(const char* argument, const Check& check) {
  try {
    return check();
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), argument);
  }
}

}  // namespace rapt
