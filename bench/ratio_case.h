#pragma once
// A call that is measured beside a plain one.
#include <functional>
#include <string>

namespace bench {

using Call = std::function<void()>;

struct RatioCase {
  std::string name;
  std::function<Call()> plain, with;  // make the problem, which the call keeps
  double goal = 0;                    // of the ratio, at most; 0: none was set
};

}  // namespace bench
