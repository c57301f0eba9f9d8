#include "check/problem/library_scores.h"

#include "check/spec/mask_spec.h"

namespace check {
namespace {

const char* anchor_name(rapt::Anchor anchor) {
  return rapt::kAnchorNames[static_cast<int>(anchor)];
}

}  // namespace

rapt::MadeScore made(const ScoreSpec& spec) {
  const auto given = [&spec](std::string_view) { return spec.numbers; };
  switch (spec.kind) {
    case ScoreSpec::softcap:
      return rapt::make_score("softcap(" + number_text(spec.number(0)) + ")");
    case ScoreSpec::head_scale:
      return rapt::make_score("head_scale(numbers)", given);
    case ScoreSpec::log_n:
      return rapt::make_score(std::string("log_n(") + (spec.by_position ? "position" : "keys") +
                              ",length=" + std::to_string(spec.length) + ")");
    case ScoreSpec::alibi:
      return rapt::make_score(std::string("alibi(slopes=numbers,") +
                                  (spec.is_signed ? "signed" : "absolute") + "," +
                                  anchor_name(spec.anchor) + ")",
                              given);
    case ScoreSpec::t5_bias:
      return rapt::make_score("t5_bias(numbers,max_distance=" + std::to_string(spec.max_distance) +
                                  "," + (spec.past ? "past" : "both") + "," +
                                  anchor_name(spec.anchor) + ")",
                              given);
    case ScoreSpec::kerple_log:
      return rapt::make_score(
          std::string("kerple_log(amplitudes=first,rates=second,") + anchor_name(spec.anchor) + ")",
          [&spec](std::string_view name) { return spec.part(name == "first" ? 0 : 1); });
  }
  return {};
}

std::vector<rapt::ScoreRef> refs_of(const std::vector<rapt::MadeScore>& scores) {
  return {scores.begin(), scores.end()};
}

}  // namespace check
