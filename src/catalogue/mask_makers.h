#pragma once
// Makers of the catalogue's masks at run time. This room, src/catalogue, finds every variant by
// name and parses its text. It computes nothing and may use the public headers and src/base.
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "rapt/declaration.h"
#include "rapt/mask/mask.h"

namespace rapt {

struct MaskMaker {
  const Declaration* declaration;
  std::unique_ptr<Mask> (*make)();  // with the defaults of its parameters
  size_t most_parts;                // 0: the mask has no parts
  // Makes a mask of 1 to most_parts parts and owns them; null where most_parts is 0.
  std::unique_ptr<Mask> (*combine)(std::vector<std::unique_ptr<Mask>> parts);
};

std::span<const MaskMaker> mask_makers();

}  // namespace rapt
