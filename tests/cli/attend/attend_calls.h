#pragma once
// Runs rapt attend on q.npy, k.npy and v.npy with more arguments: valid calls and calls that are
// rejected.
#include "cli/support/run_rapt.h"

namespace rapt::cli_test {

class AttendCalls : public RaptTest {
 protected:
  AttendCalls() { save_problem(); }  // 2 batches, 4 heads, 2 kv heads, 6 queries, 9 keys, d = 8

  Ran ran(const std::vector<std::string>& more) const {
    const Ran result = rapt(attend(more));
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  }
  void expect_refused(const std::vector<std::string>& more, int exit, const char* says) const {
    const std::vector<std::string> before = files();
    const Ran result = rapt(attend(more));
    EXPECT_EQ(result.exit, exit) << says << "\n" << result.err;
    EXPECT_TRUE(contains(result.err, says)) << says << "\n" << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(files(), before);
  }
};

}  // namespace rapt::cli_test
