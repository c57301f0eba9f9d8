// The tree of masks is read here. The library reads the arguments of its leaves, and their
// parameters are read back from its object. Dimensions and numbers of tensors are added.
#include "check/problem/parse_masks.h"

#include <algorithm>

#include "check/problem/variant_text.h"
#include "rapt/catalogue.h"

namespace check {
namespace {

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
    MaskSpec mask = of_kind(kind);
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
      MaskSpec mask = of_kind(MaskSpec::negation);
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
  MaskSpec of_kind(MaskSpec::Kind kind) {
    if (++nodes_ > kMaxMaskParts)
      in_.fail("expected at most " + std::to_string(kMaxMaskParts) + " masks in all");
    MaskSpec mask;
    mask.kind = kind;
    return mask;
  }

  MaskSpec leaf() {
    const rapt::Declaration& declaration = read_name(in_, "a mask", leaf_masks());
    MaskSpec mask = of_kind(MaskSpec::leaf);
    mask.declaration = &declaration;
    const MaskTensorTraits traits = tensor_traits(declaration);
    mask.has_tensors = traits.required;
    mask.dims = default_dims(traits.dims, problem_.leading, problem_.q_len, problem_.k_len);
    if (traits.number) mask.number = traits.number->usual;
    const size_t column = in_.position() + in_.next_is('(');
    if (in_.take("(")) {
      items(mask, traits);
      in_.expect(")");
    }
    if (!mask.has_tensors) mask.dims.clear();
    return made_at(in_, column, [&] {
      read_arguments(mask);
      return std::move(mask);
    });
  }

  void items(MaskSpec& mask, const MaskTensorTraits& traits) {
    bool has_dims = traits.dims == MaskDims::none, has_number = !traits.number;
    do {
      if (in_.next_is('[') && !has_dims) {
        mask.dims = dims(traits.dims);
        has_dims = mask.has_tensors = true;
      } else if (traits.number && !has_number) {
        mask.number = number(*traits.number);
        has_number = true;
      } else {
        mask.arguments += (mask.arguments.empty() ? "" : ",") + std::string(in_.until(",):&|"));
      }
    } while (in_.take(","));
  }

  double number(const MaskNumber& wanted) {
    if (!wanted.whole) return in_.real(wanted.least, wanted.most, wanted.what);
    return static_cast<double>(in_.integer(static_cast<int64_t>(wanted.least),
                                           static_cast<int64_t>(wanted.most), wanted.what));
  }

  Dims dims(MaskDims kind) {
    const size_t begin = in_.position();
    const bool pairs = kind == MaskDims::pairs;
    Dims full = problem_.leading;
    if (pairs) full.insert(full.end(), {problem_.q_len, problem_.k_len});
    Dims dims = in_.list(kMaxLeading + 2, kMaxLength, "dimensions");
    const size_t from = pairs && dims.size() <= full.size() ? full.size() - dims.size() : 0;
    bool fits = dims.size() <= full.size();
    for (size_t d = 0; fits && d < dims.size(); ++d)
      fits = dims[d] == 1 || dims[d] == full[from + d];
    if (fits) return dims;
    in_.go_back_to(begin);
    in_.fail("expected the " + std::string(pairs ? "last" : "first leading") + " dimensions of " +
             to_string(full) + ", or 1 for each");
  }

  // Sets what the library's object says: the predicate, and the arguments in its own words.
  static void read_arguments(MaskSpec& mask) {
    const rapt::Declaration& declaration = *mask.declaration;
    std::string all;
    for (const rapt::Parameter& parameter : declaration.parameters)
      if (parameter.type == rapt::ParameterType::tensor) {
        if (mask.has_tensors) all += (all.empty() ? "" : ",") + std::string(parameter.name) + "=t";
        mask.tensors.emplace_back();
      }
    if (!mask.arguments.empty()) all += (all.empty() ? "" : ",") + mask.arguments;
    rapt::TensorSource tensors;
    static int64_t nothing = 0;  // tensors are drawn later
    if (mask.has_tensors) tensors = [](std::string_view) { return TensorView(&nothing, {1}); };
    const std::unique_ptr<rapt::Mask> made =
        rapt::make_mask(declaration.name + ("(" + all + ")"), tensors);
    void* const object = dynamic_cast<void*>(made.get());
    for (const rapt::Parameter& parameter : declaration.parameters)
      if (parameter.type == rapt::ParameterType::tensor) parameter.set(object, {});
    mask.predicate = predicate_of(declaration.name, arguments_of(declaration, object));
    mask.arguments = rapt::to_string(*made).substr(std::string_view(declaration.name).size());
    if (!mask.arguments.empty())
      mask.arguments = mask.arguments.substr(1, mask.arguments.size() - 2);
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
