#pragma once
// The catalogue at run time: what there is, by name, and how to make one from text.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rapt/declaration.h"
#include "rapt/mask/mask.h"

namespace rapt {

std::span<const Declaration* const> mask_declarations();
std::span<const Declaration* const> normalizer_declarations();

// Reads a tensor parameter: the core opens no file, so the caller says what a name means. The view
// must outlive the variant.
using TensorSource = std::function<TensorView(std::string_view name)>;

// Makes a mask from `name`, `name(a, b=1)` or `name:a,b:c`. Arguments without a name go to the
// first free parameter that can take them: causal(bottom-right), window(4,0),
// window:4,0:bottom-right. Throws Error(unknown_name) with a suggestion, Error(argument) for a
// value that does not fit.
std::unique_ptr<Mask> make_mask(std::string_view spec, const TensorSource& tensors = {});

// The nearest of `known` to a misspelt name, "" if none is near (for "did you mean").
std::string nearest(std::string_view name, std::span<const std::string_view> known);

}  // namespace rapt
