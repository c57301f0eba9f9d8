// F.glu of the last dimension.
#include "rapt/nn/glu.h"

#include "nn/parity/parity.h"

namespace parity {

void glu(Given& given) {
  using namespace rapt;
  const Tensor x = given.tensor("x"), d_y = given.tensor("d_y");
  Tensor y(given.dtype(), d_y.dims()), d_x(given.dtype(), x.dims());
  run([&](nn::Arena&, const nn::Run& r) {
    nn::glu(x, y, r);
    nn::glu_gradient(x, d_y, d_x, r);
  });
  given.compare("y", y);
  given.compare("d_x", d_x);
}

}  // namespace parity
