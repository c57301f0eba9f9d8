// Functions that all operators share.
#include "operators.h"

#include <algorithm>

#include "rapt/error.h"

namespace rapt::conformance {

void require_known(const Node& node, std::initializer_list<const char*> known) {
  for (const auto& [name, attribute] : node.attributes)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error(ErrorCode::unsupported, node.op_type + ": the attribute " + name);
}

}  // namespace rapt::conformance
