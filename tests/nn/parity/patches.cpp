// F.unfold of patches that do not overlap, transposed. Numbers: height and width of a patch.
#include "rapt/nn/patches.h"

#include "nn/parity/parity.h"

namespace parity {

void patches(Given& given) {
  using namespace rapt;
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y");
  const nn::PatchSize size{static_cast<int64_t>(given.number("height")),
                           static_cast<int64_t>(given.number("width"))};
  Tensor y(given.dtype(), d_y.dims()), d_x(given.dtype(), x.dims());
  run([&](nn::Arena&, const nn::Run& r) {
    nn::to_patches(x, size, y, r);
    nn::from_patches(d_y, size, d_x, r);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
}

}  // namespace parity
