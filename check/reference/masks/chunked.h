#pragma once
// The chunk of j is at most `back` before and `forward` after that of i + o; -1: any. o is as in
// causal.h.
#include "check/reference/mask_predicate.h"

namespace check {

struct ChunkedPredicate : AnchoredBatches {
  static constexpr std::string_view kName = "chunked";
  int64_t size, back, forward;

  explicit ChunkedPredicate(const VariantArguments& arguments)
      : AnchoredBatches(arguments),
        size(arguments.integers.at("size")),
        back(arguments.integers.at("back")),
        forward(arguments.integers.at("forward")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const int64_t p = place.j - ahead(place, tensors);
    const int64_t chunk = p >= 0 ? p / size : -((-p + size - 1) / size);
    const int64_t after = place.j / size - chunk;
    return after >= 0 ? forward < 0 || after <= forward : back < 0 || -after <= back;
  }
};

}  // namespace check
