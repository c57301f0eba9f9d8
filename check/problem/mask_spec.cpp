#include "check/problem/mask_spec.h"

#include <algorithm>
#include <stdexcept>

#include "rapt/catalogue.h"
#include "rapt/masks.h"

namespace check {
namespace {

template <class... M>
std::vector<const rapt::Declaration*> without_parts(rapt::TypeList<M...>) {
  std::vector<const rapt::Declaration*> found;
  const auto take = [&]<class T>(const T*) {
    if constexpr (!requires { T::kMostParts; }) found.push_back(&T::kDeclaration);
  };
  (take(static_cast<const M*>(nullptr)), ...);
  return found;
}

// Calls visit(pointer to F) for the predicate F of a mask. Throws std::logic_error if there is
// none.
template <class Visit, class... F>
void visit_predicate(std::string_view mask, const Visit& visit, const std::variant<F...>*) {
  const auto visit_named = [&]<class G>(const G* predicate) {
    if (mask != G::kName) return false;
    visit(predicate);
    return true;
  };
  if (!(visit_named(static_cast<const F*>(nullptr)) || ...))
    throw std::logic_error("check/reference/masks has no " + std::string(mask));
}

template <class Visit>
void visit_predicate(std::string_view mask, const Visit& visit) {
  visit_predicate(mask, visit, static_cast<const MaskPredicate*>(nullptr));
}

template <class F>
constexpr bool draws_tensors = requires {
  F::kDims;
};

// The mask as text for the library; a tensor is named by its index in `tensors`.
std::string library_text(const MaskSpec& mask, std::vector<TensorView>& tensors) {
  if (mask.kind == MaskSpec::leaf) {
    std::string inside = mask.arguments;
    size_t next = 0;
    for (const rapt::Parameter& parameter : mask.declaration->parameters) {
      if (parameter.type != rapt::ParameterType::tensor) continue;
      const TensorView& view = mask.tensors[next++];
      if (!view.defined()) continue;
      inside += (inside.empty() ? "" : ",") + std::string(parameter.name) + "=t" +
                std::to_string(tensors.size());
      tensors.push_back(view);
    }
    return mask.declaration->name + ("(" + inside + ")");
  }
  std::string text = mask.kind == MaskSpec::all   ? "and("
                     : mask.kind == MaskSpec::any ? "or("
                                                  : "not(";
  for (size_t p = 0; p < mask.parts.size(); ++p)
    text += (p > 0 ? "," : "") + library_text(mask.parts[p], tensors);
  return text + ")";
}

std::string leaf_text(const MaskSpec& mask, const Dims& leading, int64_t q_len, int64_t k_len) {
  std::string inside = mask.arguments;
  const auto add = [&](const std::string& item) { inside += (inside.empty() ? "" : ",") + item; };
  const MaskTensorTraits traits = tensor_traits(*mask.declaration);
  if (mask.has_tensors) {
    if (traits.number && mask.number != traits.number->usual)
      add(traits.number->whole ? std::to_string(static_cast<int64_t>(mask.number))
                               : number_text(mask.number));
    // Dimensions say that there are tensors, unless there are always.
    if (!traits.required || mask.dims != default_dims(traits.dims, leading, q_len, k_len))
      add(to_string(mask.dims));
  }
  return mask.declaration->name + (inside.empty() ? "" : "(" + inside + ")");
}

}  // namespace

std::span<const rapt::Declaration* const> leaf_masks() {
  static const std::vector<const rapt::Declaration*> all = without_parts(rapt::Masks{});
  return all;
}

MaskPredicate predicate_of(std::string_view mask, const VariantArguments& arguments) {
  std::optional<MaskPredicate> made;
  visit_predicate(mask, [&]<class F>(const F*) {
    if constexpr (std::is_constructible_v<F, const VariantArguments&>)
      made = F(arguments);
    else
      made = F{};
  });
  return *made;
}

MaskTensorTraits tensor_traits(const rapt::Declaration& mask) {
  MaskTensorTraits traits;
  for (const rapt::Parameter& parameter : mask.parameters) {
    if (parameter.type != rapt::ParameterType::tensor) continue;
    traits.any = true;
    traits.required |= parameter.required;
  }
  visit_predicate(mask.name, [&]<class F>(const F*) {
    if (draws_tensors<F> != traits.any)
      throw std::logic_error(std::string("check/reference/masks: the tensors of ") + mask.name);
    if constexpr (draws_tensors<F>) traits.dims = F::kDims;
    if constexpr (requires { F::kNumber; }) traits.number = F::kNumber;
  });
  return traits;
}

Dims default_dims(MaskDims dims, const Dims& leading, int64_t q_len, int64_t k_len) {
  if (dims == MaskDims::pairs) return {q_len, k_len};
  if (dims == MaskDims::batches && !leading.empty()) return {leading.front()};
  return {};
}

bool MaskSpec::holds_tensor() const {
  return has_tensors || std::ranges::any_of(parts, &MaskSpec::holds_tensor);
}

bool MaskSpec::operator==(const MaskSpec& o) const {
  return kind == o.kind && parts == o.parts && declaration == o.declaration &&
         arguments == o.arguments && has_tensors == o.has_tensors && dims == o.dims &&
         number == o.number;
}

std::vector<Dims> MaskSpec::shapes(int64_t q_len, int64_t k_len) const {
  std::vector<Dims> shapes;
  if (!has_tensors) return shapes;
  std::visit(
      [&]<class F>(const F& f) {
        if constexpr (draws_tensors<F>) shapes = f.shapes({q_len, k_len, dims, number});
      },
      *predicate);
  return shapes;
}

DType MaskSpec::tensor_dtype() const {
  return std::visit(
      []<class F>(const F&) {
        if constexpr (requires { F::kDType; }) return F::kDType;
        return DType::i64;
      },
      *predicate);
}

void MaskSpec::draw(Random& random, int64_t q_len, int64_t k_len, std::vector<Tensor>& owner) {
  if (has_tensors) {
    const std::vector<Dims> wanted = shapes(q_len, k_len);
    for (size_t t = 0; t < wanted.size(); ++t) {
      owner.emplace_back(tensor_dtype(), wanted[t]);
      tensors[t] = owner.back().view();
    }
    std::visit(
        [&]<class F>(const F& f) {
          if constexpr (draws_tensors<F>) f.draw(random, {q_len, k_len, dims, number}, tensors);
        },
        *predicate);
  }
  for (MaskSpec& part : parts) part.draw(random, q_len, k_len, owner);
}

bool MaskSpec::allowed(const PairPlace& place) const {
  const auto part_allows = [&](const MaskSpec& part) { return part.allowed(place); };
  switch (kind) {
    case all:
      return std::ranges::all_of(parts, part_allows);
    case any:
      return std::ranges::any_of(parts, part_allows);
    case negation:
      return !part_allows(parts.front());
    case leaf:
      break;
  }
  return std::visit([&](const auto& f) { return f.allows(place, tensors); }, *predicate);
}

std::unique_ptr<rapt::Mask> MaskSpec::make() const {
  std::vector<TensorView> named;
  const std::string text = library_text(*this, named);
  return rapt::make_mask(text, [&](std::string_view name) {
    return named.at(static_cast<size_t>(std::stoi(std::string(name.substr(1)))));
  });
}

std::string to_string(const MaskSpec& mask, const Dims& leading, int64_t q_len, int64_t k_len) {
  const auto part_text = [&](const MaskSpec& part) {
    const std::string text = to_string(part, leading, q_len, k_len);
    return part.kind == MaskSpec::all || part.kind == MaskSpec::any ? "(" + text + ")" : text;
  };
  if (mask.kind == MaskSpec::leaf) return leaf_text(mask, leading, q_len, k_len);
  if (mask.kind == MaskSpec::negation) return "!" + part_text(mask.parts.front());
  std::string text;
  for (const MaskSpec& part : mask.parts)
    text += (text.empty() ? "" : mask.kind == MaskSpec::all ? "&" : "|") + part_text(part);
  return text;
}

}  // namespace check
