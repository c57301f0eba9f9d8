#pragma once
// The catalogue at run time: what there is, by name, and how to make one from text.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rapt/attention.h"
#include "rapt/declaration.h"
#include "rapt/mask/mask.h"

namespace rapt {

std::span<const Declaration* const> mask_declarations();        // in the order of variants.h
std::span<const Declaration* const> score_declarations();       // likewise
std::span<const Declaration* const> normalizer_declarations();  // likewise
// What can happen to rows of query and key before they are multiplied.
std::span<const Declaration* const> row_transform_declarations();
// What the products have beside query, key and value.
std::span<const Declaration* const> product_declarations();

// Reads a tensor parameter: the core opens no file, so the caller says what a name means. The view
// must outlive the variant.
using TensorSource = std::function<TensorView(std::string_view name)>;

// Makes a mask from text. One mask is `name`, `name(a, b=1)` or, standing alone, `name:a,b:c`.
// Arguments without a name go to the first free parameter that can take them: causal(bottom-right),
// window(4,0), window:4,0:bottom-right. A tensor that may be absent beside words
// to choose from goes by its name: causal(lengths=lengths.npy). Masks are combined by `!` over `&`
// over `|`, with parentheses, or by not(a), and(a, b), or(a, b):
//   causal | prefix(16)      window(256,0) & !lengths(padding.npy)      or(causal, and(a, b))
// The result owns its parts. Throws Error(unknown_name) with a suggestion, Error(argument) for a
// value that does not fit; both say at which column. Text and nesting are bounded (65,536
// characters; kMostMaskDepth levels).
std::unique_ptr<Mask> make_mask(std::string_view spec, const TensorSource& tensors = {});

// The spec of a mask, as make_mask() takes it: "window(256,0)&lengths(<tensor>)". A tensor has no
// name any more and is written <tensor>; a mask of your own goes by its declaration. Parameters at
// their defaults are left out. Throws Error(argument) for a tree that is too large (parts.h).
std::string to_string(const Mask& mask);

// A variant and who owns it, to outlive the call: `options.scores = {made};`,
// `options.normalizer = made;`.
template <class Ref>
struct MadeVariant {
  std::shared_ptr<void> object;
  Ref ref;

  operator Ref() const& { return ref; }
  operator Ref() && = delete;  // would be gone before the call
};
using MadeScore = MadeVariant<ScoreRef>;            // what make_score() returns
using MadeNormalizer = MadeVariant<NormalizerRef>;  // what make_normalizer() returns

// Makes a score from `name`, `name(a, b=1)` or `name:a,b`: softcap(30). Throws Error(unknown_name)
// with a suggestion, Error(argument).
MadeScore make_score(std::string_view spec, const TensorSource& tensors = {});

// Makes a normaliser from the same forms: sigmoid(-5). Throws Error(unknown_name) with a
// suggestion, Error(argument).
MadeNormalizer make_normalizer(std::string_view spec, const TensorSource& tensors = {});

// Makes a rotary embedding from the same forms: rotary, rotary(theta=500000, interleaved),
// rotary(scaling=yarn, factor=4, original_length=4096). Several axes have no text. Throws
// Error(unknown_name) with a suggestion, Error(argument).
Rotary make_rotary(std::string_view spec, const TensorSource& tensors = {});

// Makes relative positions from the same forms, whose tensors go by their names:
// relative(key_rows=F.npy, value_rows=G.npy, center=4, anchor=bottom-right). Throws
// Error(unknown_name) with a suggestion, Error(argument), also where no tensor is named.
RelativePositions make_relative(std::string_view spec, const TensorSource& tensors);

// The nearest of `known` to a misspelt name, "" if none is near (for "did you mean").
std::string nearest(std::string_view name, std::span<const std::string_view> known);

}  // namespace rapt
