#include "check/problem/parse_rows.h"

namespace check {
namespace {

constexpr int64_t kMostStep = int64_t{1} << 20;  // times a length it still fits int64_t

class RowsParser {
 public:
  RowsParser(Scanner& in, const Descriptor& problem) : in_(in), problem_(problem) {}

  RowSpec parse() {
    do change();
    while (in_.take("+"));
    return spec_;
  }

 private:
  void change() {
    const size_t begin = in_.position();
    const std::string_view name = in_.word();
    if (name == "cosine" && !spec_.any()) {
      spec_.cosine = RowSpec::kEpsilon;
      if (!in_.take("(")) return;
      spec_.cosine = in_.real(1e-18, 1e18, "the least length, from 1e-18 to 1e18");
      in_.expect(")");
    } else if (name == "rotary" && !spec_.rotary) {
      rotary(spec_.rotary.emplace());
      check_dims(begin);
    } else {
      in_.go_back_to(begin);
      in_.fail("expected cosine, rotary, or both in this order");
    }
  }

  void rotary(RotarySpec& rotary) {
    if (!in_.take("(")) return;
    do {
      if (in_.take("interleaved")) {
        rotary.interleaved = true;
      } else if (in_.take("dims=")) {
        rotary.dims = in_.integer(2, kMaxLength, "dimensions that turn");
      } else if (in_.take("theta=")) {
        rotary.theta = in_.real(2, 1e30, "a base from 2 to 1e30");
      } else if (in_.take("magnitude=")) {
        rotary.magnitude = in_.real(1e-6, 1e6, "a magnitude from 1e-6 to 1e6");
      } else if (in_.take("query=")) {
        rotary.query = counted();
      } else if (in_.take("key=")) {
        key_at_ = in_.position();
        rotary.key = counted();
      } else if (in_.take("query-only")) {
        rotary.turns_key = false;
      } else {
        in_.fail("expected interleaved, dims, theta, magnitude, query, key or query-only");
      }
    } while (in_.take(","));
    if (!rotary.turns_key && rotary.key != CountedRows{}) {
      in_.go_back_to(key_at_);
      in_.fail("expected no positions of keys beside query-only");
    }
    in_.expect(")");
  }

  CountedRows counted() {
    CountedRows rows;
    rows.start = in_.integer(-kMaxLength, kMaxLength, "the position of row 0");
    if (!in_.take("+") && !in_.next_is('-')) return rows;
    rows.step = in_.integer(-kMostStep, kMostStep, "a step");
    in_.expect("i");
    return rows;
  }

  void check_dims(size_t begin) {
    const int64_t most = problem_.head_dim;
    int64_t& dims = spec_.rotary->dims;
    if (dims % 2 != 0 || dims > most || (dims == 0 && most % 2 != 0)) {
      in_.go_back_to(begin);
      in_.fail("expected an even number of dims that turn, at most " + std::to_string(most));
    }
    if (dims == most) dims = 0;  // the default
  }

  Scanner& in_;
  const Descriptor& problem_;
  RowSpec spec_;
  size_t key_at_ = 0;
};

}  // namespace

RowSpec parse_rows(Scanner& in, const Descriptor& problem) {
  return RowsParser(in, problem).parse();
}

}  // namespace check
