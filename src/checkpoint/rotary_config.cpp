#include "checkpoint/rotary_config.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace rapt::checkpoint {
namespace {

// modeling_rope_utils.py: default_theta.
constexpr double kDefaultTheta = 10000;
constexpr const char* kOriginal = "original_max_position_embeddings";

// modeling_rope_utils.py, _compute_yarn_parameters: the factor of cosines and sines.
double yarn_attention_factor(const ConfigObject& rope, double factor) {
  if (rope.has("attention_factor")) return rope.number("attention_factor", 0);
  const double scale = rope.number("mscale", 0), all_dims = rope.number("mscale_all_dim", 0);
  if (scale == 0 || all_dims == 0) return 0;  // the default
  const auto scaled = [&](double m) { return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1; };
  return scaled(scale) / scaled(all_dims);
}

// `original_beside`: the length beside the parameters of rope, which comes first; 0: there is none.
void read_scaling(const ConfigObject& rope, int64_t context, int64_t original_beside, bool is_limit,
                  Rotary& rotary) {
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return;
  // modeling_rope_utils.py, _compute_dynamic_ntk_parameters.
  if (type == "dynamic" && is_limit) return;
  const auto original =
      static_cast<double>(original_beside > 0 ? original_beside : rope.integer(kOriginal, context));
  if (type == "linear")
    rotary.scaling = RotaryScaling::linear;
  else if (type == "yarn")
    rotary.scaling = RotaryScaling::yarn;
  else if (type == "llama3")
    rotary.scaling = RotaryScaling::llama3;
  else
    rope.reject(
        rope.has("rope_type") ? "rope_type" : "type",
        is_limit ? "default, linear, dynamic, yarn or llama3" : "default, linear, yarn or llama3");
  rotary.factor = rope.number("factor", 1);
  if (rotary.scaling == RotaryScaling::yarn) {
    if (!rope.has("factor")) rotary.factor = static_cast<double>(context) / original;
    const double fast = rope.number("beta_fast", 0), slow = rope.number("beta_slow", 0);
    rotary.original_length = original;
    if (fast != 0) rotary.beta_fast = fast;
    if (slow != 0) rotary.beta_slow = slow;
    rotary.truncate = rope.boolean("truncate", true);
    rotary.attention_factor = yarn_attention_factor(rope, rotary.factor);
  } else if (rotary.scaling == RotaryScaling::llama3) {
    rotary.original_length = original;
    rotary.low_frequency_factor = rope.number("low_freq_factor", 1);
    rotary.high_frequency_factor = rope.number("high_freq_factor", 4);
  }
}

[[noreturn]] void reject_rotary(const std::string& what) {
  throw Error(ErrorCode::unsupported,
              "config.json of transformers has no rope of these models for " + what);
}

}  // namespace

Rotary read_rotary(const ConfigObject& config, int64_t context, bool is_limit) {
  Rotary rotary;
  rotary.theta = config.number("rope_theta", kDefaultTheta);
  if (config.number("partial_rotary_factor", 1) != 1) config.reject("partial_rotary_factor", "1");
  const std::optional<ConfigObject> rope =
      config.object(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters");
  if (!rope) return rotary;
  if (rope->number("partial_rotary_factor", 1) != 1) rope->reject("partial_rotary_factor", "1");
  for (const char* const nested : {"full_attention", "sliding_attention"})
    if (rope->has(nested)) rope->reject(nested, "one set of parameters for all layers");
  rotary.theta = rope->number("rope_theta", rotary.theta);
  read_scaling(*rope, context, config.integer(kOriginal, 0), is_limit, rotary);
  return rotary;
}

nlohmann::ordered_json write_rotary(const Rotary& rotary, int64_t head_dim) {
  if (rotary.pairs != RotaryPairs::halves) reject_rotary("interleaved pairs");
  if (rotary.dims != 0 && rotary.dims != head_dim) reject_rotary("a part of head_dim");
  if (rotary.scaling == RotaryScaling::ntk) reject_rotary("NTK scaling at a fixed length");
  nlohmann::ordered_json rope = {{"rope_theta", rotary.theta}};
  const char* const names[] = {"default", "linear", "", "yarn", "llama3"};
  rope["rope_type"] = names[static_cast<int>(rotary.scaling)];
  if (rotary.scaling == RotaryScaling::none) return rope;
  rope["factor"] = rotary.factor;
  if (rotary.scaling == RotaryScaling::linear) return rope;
  rope["original_max_position_embeddings"] = static_cast<int64_t>(rotary.original_length);
  if (rotary.scaling == RotaryScaling::llama3) {
    rope["low_freq_factor"] = rotary.low_frequency_factor;
    rope["high_freq_factor"] = rotary.high_frequency_factor;
    return rope;
  }
  rope["beta_fast"] = rotary.beta_fast;
  rope["beta_slow"] = rotary.beta_slow;
  rope["truncate"] = rotary.truncate;
  if (rotary.attention_factor != 0) rope["attention_factor"] = rotary.attention_factor;
  return rope;
}

}  // namespace rapt::checkpoint
