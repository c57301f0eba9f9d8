#pragma once
// A call with an option, measured against the same call without it.
#include <functional>
#include <string>

namespace bench {

using Call = std::function<void()>;

struct RatioCase {
  std::string name;
  std::function<Call()> plain, with;  // create the problem, which the returned call owns
  double goal = 0;                    // of the ratio, at most; 0: none was set
};

}  // namespace bench
