#pragma once
// Names the argument in the errors of its checks: Error::argument().
#include "rapt/error.h"

namespace rapt {

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
