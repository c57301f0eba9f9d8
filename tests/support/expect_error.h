#pragma once
// Expects that a call throws one Error with the right code, whose text contains all given words.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "rapt/error.h"

namespace laws {

inline void expect_error(rapt::ErrorCode code, const std::vector<std::string>& fragments,
                         const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& fragment : fragments)
      EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos)
          << "\"" << fragment << "\" is missing in: " << error.what();
  }
}

}  // namespace laws
