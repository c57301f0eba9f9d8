#pragma once
// Numbers of the C interface's enumerations and the C++ values that they stand for.
#include <cstddef>
#include <cstdint>
#include <string>

#include "c_api/failures.h"

namespace rapt::c_api {

template <class Value>
struct Enumerator {
  int32_t number;
  const char* name;  // for messages
  Value value;
};

// Throws Error(argument) for a number that is none of these. `what`: the field, for messages.
template <class Value, size_t kCount>
Value value_of(const char* what, int32_t given, const Enumerator<Value> (&known)[kCount]) {
  for (const Enumerator<Value>& one : known)
    if (one.number == given) return one.value;
  std::string names;
  for (size_t i = 0; i < kCount; ++i)
    names += std::string(i == 0 ? "" : i + 1 < kCount ? ", " : " or ") + known[i].name;
  bad_argument(std::string(what) + " is " + std::to_string(given) + "; expected " + names);
}

}  // namespace rapt::c_api
