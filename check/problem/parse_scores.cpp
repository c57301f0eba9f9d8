#include "check/problem/parse_scores.h"

namespace check {
namespace {

constexpr double kLargestCap = 1e30;  // of a cap: f32 holds its products
constexpr int64_t kMostBuckets = 32768;

class ScoreParser {
 public:
  ScoreParser(Scanner& in, const Descriptor& problem) : in_(in), problem_(problem) {}

  std::vector<ScoreSpec> scores() {
    std::vector<ScoreSpec> all;
    do {
      if (all.size() == rapt::ScoreList::kMost)
        in_.fail("expected at most " + std::to_string(rapt::ScoreList::kMost) + " scores");
      all.push_back(score());
    } while (in_.take(","));
    return all;
  }

 private:
  ScoreSpec score() {
    const size_t begin = in_.position();
    const std::string_view name = in_.word();
    ScoreSpec spec;
    if (name == "softcap") {
      in_.expect("(");
      spec.cap = in_.real(1e-30, kLargestCap, "a softcap above 0");
      in_.expect(")");
    } else if (name == "head_scale") {
      spec.kind = ScoreSpec::head_scale;
      arguments(spec, [] { return false; });
    } else if (name == "log_n") {
      spec.kind = ScoreSpec::log_n;
      arguments(spec, [&] {
        if (take_word("position", spec.by_position)) return true;
        if (!in_.next_is_digit()) return false;
        spec.length = in_.integer(2, kMaxLength, "a length of training");
        return true;
      });
      spec.dims = {};  // there are no numbers
    } else if (name == "alibi") {
      spec.kind = ScoreSpec::alibi;
      arguments(spec, [&] { return take_word("signed", spec.is_signed) || take_anchor(spec); });
    } else if (name == "t5_bias") {
      spec.kind = ScoreSpec::t5_bias;
      in_.expect("(");
      spec.buckets = in_.integer(2, kMostBuckets, "a number of buckets");
      in_.expect(",");
      spec.max_distance = in_.integer(1, kMaxLength, "the largest distance");
      spec.dims = default_head_dims(problem_.leading);
      if (in_.take(","))
        list(spec, [&] { return take_word("past", spec.past) || take_anchor(spec); });
      in_.expect(")");
      const int64_t half = spec.past ? spec.buckets : spec.buckets / 2;
      if (half < 2 || (!spec.past && spec.buckets % 2 != 0) || spec.max_distance <= half / 2) {
        in_.go_back_to(begin);
        in_.fail(
            "expected at least two buckets of a direction, and a distance beyond half of them");
      }
    } else if (name == "kerple_log") {
      spec.kind = ScoreSpec::kerple_log;
      arguments(spec, [&] { return take_anchor(spec); });
    } else {
      in_.go_back_to(begin);
      in_.fail("expected a score: softcap, head_scale, log_n, alibi, t5_bias or kerple_log");
    }
    return spec;
  }

  // Reads "(...)", if it comes next: dims, and arguments that take_other() accepts.
  template <class TakeOther>
  void arguments(ScoreSpec& spec, const TakeOther& take_other) {
    spec.dims = default_head_dims(problem_.leading);
    if (!in_.take("(")) return;
    list(spec, take_other);
    in_.expect(")");
  }
  template <class TakeOther>
  void list(ScoreSpec& spec, const TakeOther& take_other) {
    do {
      if (take_other()) continue;
      spec.dims = in_.last_of(problem_.leading, kMaxLeading, kMaxLength);
    } while (in_.take(","));
  }

  bool take_word(const char* word, bool& said) {
    const bool taken = in_.take(word);
    said |= taken;
    return taken;
  }

  bool take_anchor(ScoreSpec& spec) {
    if (!in_.take("bottom-right")) return in_.take("top-left");
    spec.anchor = rapt::Anchor::bottom_right;
    return true;
  }

  Scanner& in_;
  const Descriptor& problem_;
};

}  // namespace

std::vector<ScoreSpec> parse_scores(Scanner& in, const Descriptor& problem) {
  return ScoreParser(in, problem).scores();
}

}  // namespace check
