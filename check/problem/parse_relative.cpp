#include "check/problem/parse_relative.h"

#include <algorithm>

namespace check {
namespace {

class RelativeParser {
 public:
  RelativeParser(Scanner& in, const Descriptor& problem) : in_(in), problem_(problem) {}

  RelativeSpec parse() {
    const size_t begin = in_.position();
    do table();
    while (in_.take("+"));
    const bool has_rows = spec_[RelativeSpec::keys].there || spec_[RelativeSpec::queries].there ||
                          spec_[RelativeSpec::values].there;
    if (has_rows) distances();
    if (spec_[RelativeSpec::position].there && !spec_[RelativeSpec::keys].there) {
      in_.go_back_to(begin);
      in_.fail("expected keys beside position");
    }
    return spec_;
  }

 private:
  void table() {
    const size_t begin = in_.position();
    const std::string_view name = in_.word();
    const auto* found = std::ranges::find(RelativeSpec::kPartNames, name);
    const auto part = static_cast<size_t>(found - std::begin(RelativeSpec::kPartNames));
    if (part == RelativeSpec::kParts || spec_.tables[part].there) {
      in_.go_back_to(begin);
      in_.fail("expected keys, queries, values, content and position, each once");
    }
    spec_.tables[part] = {true, default_head_dims(problem_.leading), {}};
    if (in_.next_is('['))
      spec_.tables[part].leading = in_.last_of(problem_.leading, kMaxLeading, kMaxLength);
  }

  void distances() {
    in_.expect("(");
    spec_.distances = in_.integer(1, kMaxLength, "the number of distances");
    while (in_.take(",")) {
      if (in_.take("center=")) {
        spec_.center = in_.integer(0, spec_.distances - 1, "the row of distance 0");
      } else if (in_.take("log=")) {
        spec_.exact = in_.integer(2, kMaxLength, "distances that have a row each");
        in_.expect("..");
        spec_.max_distance =
            in_.integer(3 * spec_.exact + 1, 4 * kMaxLength, "the distance of the last row");
      } else if (in_.take("bottom-right")) {
        spec_.anchor = rapt::Anchor::bottom_right;
      } else {
        in_.expect("top-left");
      }
    }
    in_.expect(")");
    if (spec_.center == spec_.distances / 2) spec_.center.reset();  // the default
  }

  Scanner& in_;
  const Descriptor& problem_;
  RelativeSpec spec_;
};

}  // namespace

RelativeSpec parse_relative(Scanner& in, const Descriptor& problem) {
  return RelativeParser(in, problem).parse();
}

}  // namespace check
