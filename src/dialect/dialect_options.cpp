// Turns a call in the terms of a dialect into options.
#include <string>
#include <vector>

#include "rapt/dialect.h"

namespace rapt {
namespace {

// Rejects what the dialect's project does not have.
void refuse(const Dialect& d, bool asked, const char* what) {
  if (asked)
    throw Error(ErrorCode::unsupported, std::string("dialect ") + d.name + " (" + d.function +
                                            ") has no " + what + "; use rapt's own options");
}

[[noreturn]] void fail(const Dialect& d, const std::string& message) {
  throw Error(ErrorCode::argument, std::string("dialect ") + d.name + ": " + message);
}

// Numbers of keys, small enough to be added up.
void check_count(const Dialect& d, const char* what, int64_t count, int64_t least,
                 const char* absent) {
  constexpr int64_t kMost = int64_t{1} << 53;  // as for the offsets of masks
  if (count < least || count > kMost)
    fail(d, std::string(what) + " is " + std::to_string(count) + "; expected " +
                std::to_string(least) + " or more, at most 2^53" + absent);
}

void check(const Dialect& d, const DialectArguments& a) {
  const bool window = a.window_left || a.window_right;
  refuse(d, a.mask.defined() && d.mask == MaskPolarity::none, "boolean mask");
  if (a.mask.defined() && a.causal && !d.mask_and_causal)
    throw Error(ErrorCode::unsupported,
                std::string("dialect ") + d.name + " (" + d.function +
                    ") has a mask beside causal, which then means nothing there; expected one of "
                    "them, or rapt's own options, where both apply");
  refuse(d, a.bias.defined() && !d.bias, "bias");
  refuse(d, window && d.window == WindowCount::none, "window");
  refuse(d, a.window_right && !d.window_right, "right bound of a window");
  refuse(d, a.softcap && d.softcap == SoftcapPlace::none, "softcap");
  refuse(d, a.lengths.defined() && d.lengths == DialectLengths::none, "lengths of keys");
  refuse(d, a.block_table.defined() && !d.pages, "block table");
  if (a.block_table.defined() && !a.lengths.defined())
    fail(d, "a block_table without lengths; expected the number of keys of each sequence");
  refuse(d, a.past != 0 && d.anchor != DialectAnchor::past, "number of past keys");
  refuse(d, a.anchor.has_value() && d.anchor != DialectAnchor::named, "choice of the anchor");
  check_count(d, "past", a.past, 0, "");
  const int64_t least = d.window == WindowCount::with_self ? 1 : 0;
  if (a.window_left) check_count(d, "window_left", *a.window_left, least, ", absent for no bound");
  if (a.window_right) check_count(d, "window_right", *a.window_right, 0, ", absent for no bound");
  if (a.past != 0 && a.lengths.defined()) fail(d, "past keys beside lengths; expected one of them");
}

// Query i attends to the keys up to i + o + further, where o is the position of the first query.
Causal diagonal(const Dialect& d, const DialectArguments& a, int64_t further) {
  Anchor anchor = a.anchor.value_or(Anchor::top_left);
  if (d.anchor == DialectAnchor::bottom_right) anchor = Anchor::bottom_right;
  // Lengths move the bottom-right corner; in ONNX's static cache, the end of the past keys.
  // Sequences in pages have corners of their own.
  const bool moved = d.lengths == DialectLengths::anchors && a.lengths.defined() &&
                     !a.block_table.defined() &&
                     (d.anchor == DialectAnchor::past || anchor == Anchor::bottom_right);
  return moved ? Causal(a.lengths, further) : Causal(anchor, a.past + further);
}

}  // namespace

DialectOptions::DialectOptions(const Dialect& d, const DialectArguments& a) {
  check(d, a);
  options_.scale = a.scale;
  if (!a.scale && d.scale == DialectScale::one) options_.scale = 1;
  options_.bias = a.bias;
  if (a.softcap) {
    softcap_.cap = *a.softcap;
    options_.scores = {softcap_};
    if (d.softcap == SoftcapPlace::between_bias_and_masks)
      options_.bias_order = BiasOrder::before_scores;
  }

  std::vector<const Mask*> masks;
  if (a.mask.defined()) {
    given_.allowed = a.mask;
    if (d.mask == MaskPolarity::true_attends)
      masks.push_back(&given_);
    else
      masks.push_back(&not_given_);
  }
  // Both bounds of a window are diagonals.
  if (a.causal || a.window_right) {
    last_ = diagonal(d, a, a.causal ? 0 : *a.window_right);
    masks.push_back(&last_);
  }
  if (a.window_left) {
    const int64_t neighbours = *a.window_left - (d.window == WindowCount::with_self ? 1 : 0);
    before_ = diagonal(d, a, -neighbours - 1);
    masks.push_back(&not_before_);
  }
  if (a.block_table.defined()) {
    options_.cache = {.lengths = a.lengths, .block_table = a.block_table};
  } else if (a.lengths.defined()) {
    lengths_.lengths = a.lengths;
    masks.push_back(&lengths_);
  }
  options_.masks = masks;
}

}  // namespace rapt
