#pragma once
// The parts of products that a kernel leaves out, relative to a product: of elements of two rows;
// of a weight and an element (tolerance/two_parts.h).

namespace check {

struct LeftOut {
  double rows = 0, weights = 0;
};

}  // namespace check
