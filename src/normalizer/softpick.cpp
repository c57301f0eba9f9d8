// The declaration of softpick; its maths is in the header.
#include "rapt/normalizer/softpick.h"

namespace rapt {

const Declaration Softpick::kDeclaration = {
    "softpick",
    "weights max(0, e^score - 1) / sum of |e^score - 1|: no weight for scores below 0, no sink",
    "Zuhri, Fuadi & Aji 2025, arXiv:2504.20966",
    {}};

}  // namespace rapt
