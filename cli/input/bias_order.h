#pragma once
// --bias-order, where the bias is added.
#include <string>
#include <vector>

#include "rapt/attention.h"

namespace rapt::cli {

inline constexpr const char* kBiasOrderDoc =
    "the bias is added after-scores (default) or before-scores, those of --softcap and --score";

std::vector<std::string> bias_order_words();

// The order that `given` names; empty: the default. Throws usage errors for other words, and for an
// order if there is no score.
BiasOrder bias_order_from(const std::string& given, bool has_scores);

// Throws a usage error if an order is given without a bias.
void require_bias(const std::string& given, const TensorView& bias);

}  // namespace rapt::cli
