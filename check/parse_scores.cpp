#include "check/parse_scores.h"

namespace check {
namespace {

constexpr double kLargest = 1e30;  // of a cap: f32 holds its products

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
      spec.cap = in_.real(1e-30, kLargest, "a softcap above 0");
      in_.expect(")");
    } else if (name == "head_scale") {
      spec.kind = ScoreSpec::head_scale;
      spec.dims = default_head_dims(problem_.leading);
      if (in_.take("(")) {
        spec.dims = head_dims();
        in_.expect(")");
      }
    } else {
      in_.go_back_to(begin);
      in_.fail("expected a score: softcap or head_scale");
    }
    return spec;
  }

  Dims head_dims() {
    const size_t begin = in_.position();
    const Dims dims = in_.list(kMaxLeading, kMaxLength, "leading dimensions");
    const Dims& full = problem_.leading;
    bool fits = dims.size() <= full.size();
    for (size_t d = 0; fits && d < dims.size(); ++d)
      fits = dims[d] == 1 || dims[d] == full[full.size() - dims.size() + d];
    if (fits) return dims;
    in_.go_back_to(begin);
    in_.fail("expected the last leading dimensions of " + to_string(full) + ", or 1 for each");
  }

  Scanner& in_;
  const Descriptor& problem_;
};

}  // namespace

std::vector<ScoreSpec> parse_scores(Scanner& in, const Descriptor& problem) {
  return ScoreParser(in, problem).scores();
}

}  // namespace check
