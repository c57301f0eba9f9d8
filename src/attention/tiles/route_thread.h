#pragma once
// What a route asks of a thread that multiplies, from construction to destruction.
#include "kernels/kernel_table.h"

namespace rapt {

template <class E>
class RouteThread {
 public:
  explicit RouteThread(const RouteKernels<E>& route) noexcept : route_(route) {
    if (route.begin) route.begin(before_);
  }
  ~RouteThread() {
    if (route_.end) route_.end(before_);
  }
  RouteThread(const RouteThread&) = delete;
  RouteThread& operator=(const RouteThread&) = delete;

 private:
  const RouteKernels<E>& route_;
  typename RouteKernels<E>::ThreadState before_;
};

}  // namespace rapt
