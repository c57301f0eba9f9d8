#pragma once
// Sets up a thread for the products of a route (RouteKernels::begin) and restores it on destruction
// (RouteKernels::end). The code is in the header because it is a template over E.
#include "kernels/kernel_table.h"

namespace rapt {

template <class E>
class RouteThread {
 public:
  explicit RouteThread(const RouteKernels<E>& route) noexcept : route_(route) {
    if (route.begin) route.begin(saved_state_);
  }
  ~RouteThread() {
    if (route_.end) route_.end(saved_state_);
  }
  RouteThread(const RouteThread&) = delete;
  RouteThread& operator=(const RouteThread&) = delete;

 private:
  const RouteKernels<E>& route_;
  typename RouteKernels<E>::ThreadState saved_state_;
};

}  // namespace rapt
