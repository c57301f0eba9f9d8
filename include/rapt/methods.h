#pragma once
// The catalogue's methods: how attention is computed when it is not computed exactly. To add a
// method: write its header, add its name here, add its test and its page (CONTRIBUTING.md).
//
// A list of its own beside variants.h, because kernels see no method.
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"
#include "rapt/method/lsh.h"
#include "rapt/method/mean.h"

namespace rapt {

using Methods = TypeList<Mean, Lsh, Favor, Linear>;  // all methods

}  // namespace rapt
