#pragma once
// Methods of the catalogue with arguments at random.
#include <string>

#include "check/problem/descriptor.h"
#include "check/tensors/random.h"

namespace check {

// A method as rapt::make_method() reads it: one of its examples, or for random features and feature
// maps any of their kinds with a few features, so that loops over them take little time.
std::string drawn_method(Random& random, std::string_view name);

// Changes the magnitude and scale of a problem so that the method can compute it in f32.
void fit_method(std::string_view name, Descriptor& problem);

// Whether the method accepts causal masks without an offset alone, with as many queries as keys.
bool needs_square_causal(std::string_view name);

}  // namespace check
