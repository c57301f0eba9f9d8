#pragma once
// Which heads of a call share gradients: the components of a backward pass by a method.
//
// The gradient of a matrix that several heads read (groups, broadcast dimensions) is a sum over
// these heads. Heads that share any wanted gradient form a *component*; components share nothing,
// so threads may take one each. The heads of a component are summed in the order of their indices.
#include "method/method_call.h"

namespace rapt {

// A head of a component, for each of query, key and value.
struct SharedHead {
  int64_t head;  // flat index among all heads
  struct Sum {
    int64_t slot = 0;   // the place of the matrix's sum among SharedHeads::slots()
    bool first = true;  // the first head that adds to the matrix: its sum starts from 0
    bool last = true;   // the last one: the sum is complete
  };
  Sum query, key, value;
};

class SharedHeads {
 public:
  SharedHeads(const MethodCall& call, const WantedGradients& wanted);

  int64_t components() const noexcept { return components_; }
  int64_t heads() const noexcept { return component_heads_; }  // of each component
  // Matrices of sums that a component needs at once, for each of query, key and value.
  int64_t query_slots() const noexcept { return slots(query_); }
  int64_t key_slots() const noexcept { return slots(key_); }
  int64_t value_slots() const noexcept { return slots(value_); }
  SharedHead operator()(int64_t component, int64_t nth) const noexcept;

 private:
  // How many neighbours along each leading dimension read the same matrix; 1 if not wanted.
  struct Divisors {
    int64_t along[kMaxRank];
  };
  Divisors divisors_of(const TensorView& view, bool wanted) const noexcept;
  int64_t slots(const Divisors& divisors) const noexcept;
  SharedHead::Sum sum_of(const Divisors& divisors, const int64_t* index) const noexcept;

  const Problem& problem_;
  Divisors query_, key_, value_;
  int64_t block_[kMaxRank];  // heads of a component along each leading dimension
  int64_t components_ = 1, component_heads_ = 1;
};

}  // namespace rapt
