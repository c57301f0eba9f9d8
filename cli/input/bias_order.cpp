// --bias-order, where the bias is added.
#include "cli/input/bias_order.h"

#include <algorithm>
#include <iterator>

#include "cli/process/failure.h"

namespace rapt::cli {

std::vector<std::string> bias_order_words() {
  return {std::begin(kBiasOrderNames), std::end(kBiasOrderNames)};
}

BiasOrder bias_order_from(const std::string& given, bool has_scores) {
  if (given.empty()) return BiasOrder::after_scores;
  const auto* const found =
      std::find(std::begin(kBiasOrderNames), std::end(kBiasOrderNames), given);
  if (found == std::end(kBiasOrderNames)) {
    throw usage_error("--bias-order: expected after-scores or before-scores, got '" + given + "'");
  }
  if (!has_scores) throw usage_error("--bias-order needs --softcap or --score");
  return static_cast<BiasOrder>(found - std::begin(kBiasOrderNames));
}

void require_bias(const std::string& given, const TensorView& bias) {
  if (given.empty() || bias.defined()) return;
  throw usage_error("--bias-order: there is no bias; expected --bias, or a --mask file of floats");
}

}  // namespace rapt::cli
