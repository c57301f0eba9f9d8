#pragma once
// The catalogue at run time: lists its variants by name, and makes variants from text.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rapt/attention.h"
#include "rapt/declaration.h"
#include "rapt/mask/mask.h"
#include "rapt/method/method.h"

namespace rapt {

std::span<const Declaration* const> mask_declarations();        // in the order of variants.h
std::span<const Declaration* const> score_declarations();       // in the order of variants.h
std::span<const Declaration* const> normalizer_declarations();  // in the order of variants.h
std::span<const Declaration* const> method_declarations();      // in the order of methods.h
// Feature maps of the methods favor and linear, which name them by a parameter; in the order of
// feature_maps.h.
std::span<const Declaration* const> feature_map_declarations();
// Transforms of query and key rows before the products: cosine, rotary.
std::span<const Declaration* const> row_transform_declarations();
// Inputs of the products beside query, key and value: relative positions.
std::span<const Declaration* const> product_declarations();

// Returns the tensor that a spec names. The caller provides it, because the core opens no file. The
// view must outlive the variant.
using TensorSource = std::function<TensorView(std::string_view name)>;

// Makes a mask from text. A single mask is `name`, `name(a, b=1)` or, if it is the whole text,
// `name:a,b:c`. Arguments without a name go to the first free parameter that accepts them:
// causal(bottom-right), window(4,0), window:4,0:bottom-right. An optional tensor must be named if
// another parameter of the variant is a choice of words: causal(lengths=lengths.npy). Masks are
// combined by `!`, `&` and `|`, which bind in this order, with parentheses, or by not(a), and(a,
// b), or(a, b):
//   causal | prefix(16)      window(256,0) & !lengths(padding.npy)      or(causal, and(a, b))
// The result owns its parts. Throws Error(unknown_name) with a suggestion, and Error(argument) for
// a value that does not fit; both name the column. Text and nesting are bounded (65,536 characters;
// kMostMaskDepth levels).
std::unique_ptr<Mask> make_mask(std::string_view spec, const TensorSource& tensors = {});

// The spec of a mask, in the form that make_mask() reads: "window(256,0)&lengths(<tensor>)". A
// tensor has no name any more and is written <tensor>; a mask of your own is written with the name
// and parameters of its declaration. Parameters at their defaults are left out. Throws
// Error(argument) for a tree that is too large (parts.h).
std::string to_string(const Mask& mask);

// A variant that owns its object, which must outlive the call: `options.scores = {made};`,
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

// Makes a method from the same forms: mean, lsh(rounds=8). Tensors must be named, and so must those
// that the call writes. Throws Error(unknown_name) with a suggestion, Error(argument).
std::unique_ptr<Method> make_method(std::string_view spec, const TensorSource& tensors = {});

// The spec of a method, in the form that make_method() reads. A tensor is written <tensor>, and
// parameters at their defaults are left out.
std::string to_string(const Method& method);

// Makes a rotary embedding from the same forms: rotary, rotary(theta=500000, interleaved),
// rotary(scaling=yarn, factor=4, original_length=4096). Several axes cannot be written as text.
// Throws Error(unknown_name) with a suggestion, Error(argument).
Rotary make_rotary(std::string_view spec, const TensorSource& tensors = {});

// Makes relative positions from the same forms. Tensors must be named: relative(key_rows=F.npy,
// value_rows=G.npy, center=4, anchor=bottom-right). Throws Error(unknown_name) with a suggestion,
// and Error(argument), also if no tensor is named.
RelativePositions make_relative(std::string_view spec, const TensorSource& tensors);

// The name in `known` that is nearest to a misspelt one, for "did you mean"; "" if none is near.
std::string nearest(std::string_view name, std::span<const std::string_view> known);

}  // namespace rapt
