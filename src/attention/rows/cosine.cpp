// The declaration of cosine attention; row_transformer.h has its arithmetic.
#include "rapt/cosine.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    // The square of a length this small is a normal number in f32.
    parameter<Cosine, &Cosine::epsilon>("epsilon", "the least length that a row is divided by",
                                        {1e-18, 1e18}),
};

}  // namespace

const Declaration Cosine::kDeclaration = {
    "cosine", "query and key rows are divided by their lengths: products are cosines",
    "Henry et al. 2020, arXiv:2010.04245, section 3", kParameters};

}  // namespace rapt
