#include "check/problem/parse_masks.h"

namespace check {
namespace {

using rapt::Anchor;

// The library's bounds: +-2^53, which every number type represents exactly.
constexpr int64_t kMaxOffset = int64_t{1} << 53;

class MaskParser {
 public:
  MaskParser(Scanner& in, const Descriptor& problem) : in_(in), problem_(problem) {}

  std::vector<MaskSpec> masks() {
    std::vector<MaskSpec> first = and_list(0);
    if (!in_.next_is('|')) {
      if (first.size() > rapt::MaskList::kMost)
        in_.fail("expected at most " + std::to_string(rapt::MaskList::kMost) + " masks");
      return first;
    }
    std::vector<MaskSpec> masks;
    masks.push_back(or_of(std::move(first), 0));
    return masks;
  }

 private:
  MaskSpec joined(MaskSpec::Kind kind, std::vector<MaskSpec> parts) {
    if (parts.size() == 1) return std::move(parts.front());
    MaskSpec mask = named(kind);
    mask.parts = std::move(parts);
    return mask;
  }

  MaskSpec or_of(std::vector<MaskSpec> first, int depth) {
    std::vector<MaskSpec> parts;
    parts.push_back(joined(MaskSpec::all, std::move(first)));
    while (in_.take("|")) parts.push_back(joined(MaskSpec::all, and_list(depth)));
    return joined(MaskSpec::any, std::move(parts));
  }

  std::vector<MaskSpec> and_list(int depth) {
    std::vector<MaskSpec> factors;
    do factors.push_back(factor(depth));
    while (in_.take("&"));
    return factors;
  }

  MaskSpec factor(int depth) {
    if (depth > kMaxMaskDepth)
      in_.fail("expected at most " + std::to_string(kMaxMaskDepth) + " masks inside each other");
    if (in_.take("!")) {
      MaskSpec mask = named(MaskSpec::negation);
      mask.parts.push_back(factor(depth + 1));
      return mask;
    }
    if (in_.take("(")) {
      MaskSpec mask = or_of(and_list(depth + 1), depth + 1);
      in_.expect(")");
      return mask;
    }
    return leaf();
  }

  // Counts the nodes of all trees together.
  MaskSpec named(MaskSpec::Kind kind) {
    if (++nodes_ > kMaxMaskParts)
      in_.fail("expected at most " + std::to_string(kMaxMaskParts) + " masks in all");
    MaskSpec mask;
    mask.kind = kind;
    return mask;
  }

  bool take_anchor(MaskSpec& mask) {
    for (const Anchor anchor : {Anchor::top_left, Anchor::bottom_right})
      if (in_.take(rapt::kAnchorNames[static_cast<int>(anchor)])) {
        mask.anchor = anchor;
        return true;
      }
    return false;
  }

  MaskSpec leaf() {
    const size_t begin = in_.position();
    const std::string_view name = in_.word();
    if (name == "causal") return causal();
    if (name == "window") return window();
    if (name == "lengths") return lengths(MaskSpec::lengths);
    if (name == "boolean") return boolean();
    if (name == "prefix") return prefix();
    if (name == "documents") return documents(MaskSpec::documents);
    if (name == "documents_by_starts") return documents(MaskSpec::documents_by_starts);
    in_.go_back_to(begin);
    in_.fail(
        "expected a mask: causal, window, prefix, lengths, boolean, documents, "
        "documents_by_starts, '!' or '('");
  }

  MaskSpec causal() {
    MaskSpec mask = named(MaskSpec::causal);
    if (!in_.take("(")) return mask;
    bool has_anchor = false, has_offset = false;
    do {
      if (!has_anchor && take_anchor(mask)) {
        has_anchor = true;
      } else if (!has_offset) {
        mask.offset = in_.integer(-kMaxOffset, kMaxOffset, "an offset or an anchor");
        has_offset = true;
      } else {
        in_.fail("expected one offset and one anchor");
      }
    } while (in_.take(","));
    in_.expect(")");
    return mask;
  }

  MaskSpec window() {
    MaskSpec mask = named(MaskSpec::window);
    in_.expect("(");
    mask.left = in_.integer(-1, kMaxOffset, "neighbours to the left (-1: all)");
    in_.expect(",");
    mask.right = in_.integer(-1, kMaxOffset, "neighbours to the right (-1: all)");
    if (in_.take(",") && !take_anchor(mask)) in_.fail("expected top-left or bottom-right");
    in_.expect(")");
    return mask;
  }

  MaskSpec prefix() {
    const size_t begin = in_.position();
    if (!in_.take("(") || in_.next_is('[')) {
      in_.go_back_to(begin);
      return lengths(MaskSpec::prefix_values);
    }
    MaskSpec mask = named(MaskSpec::prefix);
    mask.length = in_.integer(0, kMaxOffset, "the length of the prefix");
    in_.expect(")");
    return mask;
  }

  MaskSpec documents(MaskSpec::Kind kind) {
    MaskSpec mask = named(kind);
    in_.expect("(");
    mask.count = in_.integer(1, kMaxLength, "the number of documents");
    in_.expect(")");
    return mask;
  }

  MaskSpec lengths(MaskSpec::Kind kind) {
    MaskSpec mask = named(kind);
    mask.dims = default_length_dims(problem_.leading);
    if (!in_.take("(")) return mask;
    const size_t begin = in_.position();
    mask.dims = in_.list(kMaxLeading, kMaxLength, "leading dimensions");
    if (!fit(mask.dims, problem_.leading, 0)) {
      in_.go_back_to(begin);
      in_.fail("expected the first leading dimensions of " + to_string(problem_.leading) +
               ", or 1 for each");
    }
    in_.expect(")");
    return mask;
  }

  MaskSpec boolean() {
    MaskSpec mask = named(MaskSpec::boolean);
    mask.dims = default_boolean_dims(problem_.q_len, problem_.k_len);
    if (!in_.take("(")) return mask;
    bool has_density = false, has_dims = false;
    do {
      const size_t begin = in_.position();
      if (in_.next_is('[') && !has_dims) {
        mask.dims = in_.list(kMaxLeading + 2, kMaxLength, "dimensions");
        has_dims = true;
        Dims full = problem_.leading;
        full.insert(full.end(), {problem_.q_len, problem_.k_len});
        if (mask.dims.size() > full.size() ||
            !fit(mask.dims, full, full.size() - mask.dims.size())) {
          in_.go_back_to(begin);
          in_.fail("expected the last dimensions of " + to_string(full) + ", or 1 for each");
        }
      } else if (!has_density) {
        mask.density = in_.real(0, 1, "a density from 0 to 1, or dimensions");
        has_density = true;
      } else {
        in_.fail("expected one density and one list of dimensions");
      }
    } while (in_.take(","));
    in_.expect(")");
    return mask;
  }

  static bool fit(const Dims& dims, const Dims& full, size_t from) {
    if (from + dims.size() > full.size()) return false;
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] != 1 && dims[d] != full[from + d]) return false;
    return true;
  }

  Scanner& in_;
  const Descriptor& problem_;
  int nodes_ = 0;
};

}  // namespace

std::vector<MaskSpec> parse_masks(Scanner& in, const Descriptor& problem) {
  return MaskParser(in, problem).masks();
}

}  // namespace check
