// Masks from text and back.
//
//   spec    = name ":" arguments | either          the colon form stands alone
//   either  = both { "|" both }
//   both    = single { "&" single }
//   single  = "!" single | "(" either ")" | name [ "(" arguments ")" ]
//
// Arguments of a mask with parts are masks, either { "," either }. Arguments of other masks are
// values separated by commas, or by colons in the colon form. Parentheses within a value must
// match, so that a file name may contain them.
#include <algorithm>
#include <string>
#include <vector>

#include "catalogue/mask_makers.h"
#include "catalogue/variant_text.h"
#include "rapt/catalogue.h"
#include "rapt/mask/and.h"
#include "rapt/mask/not.h"
#include "rapt/mask/or.h"

namespace rapt {
namespace {

// Specs come from files and command lines; both bounds limit what a hostile spec can cost.
constexpr size_t kMostText = 65536;               // sixteen of the longest paths
constexpr int kMostNesting = 2 * kMostMaskDepth;  // parentheses need not make a level of masks

constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kNoName = " \t\r\n()&|!,:=";  // what ends a name

std::string quoted(std::string_view text) {
  constexpr size_t kMostShown = 40;
  const bool cut = text.size() > kMostShown;
  return "\"" + std::string(text.substr(0, kMostShown)) + (cut ? "..." : "") + "\"";
}

class Parser {
 public:
  Parser(std::string_view text, const TensorSource& tensors) : text_(text), tensors_(tensors) {}

  std::unique_ptr<Mask> parse() {
    if (text_.size() > kMostText)
      throw Error(ErrorCode::argument, "a mask's text of " + std::to_string(text_.size()) +
                                           " characters; expected at most " +
                                           std::to_string(kMostText));
    skip_blanks();
    const size_t name_end = std::min(text_.find_first_of(kNoName, at_), text_.size());
    std::unique_ptr<Mask> mask =
        name_end < text_.size() && text_[name_end] == ':' ? colon_form(name_end) : either();
    if (skip_blanks(); at_ < text_.size()) fail(at_, "expected &, | or the end of the masks");
    return mask;
  }

 private:
  using Parts = std::vector<std::unique_ptr<Mask>>;

  [[noreturn]] void fail(size_t at, const std::string& message,
                         ErrorCode code = ErrorCode::argument) const {
    const std::string where =
        at < text_.size() ? ": " + quoted(text_.substr(at)) : " (the end of " + quoted(text_) + ")";
    throw Error(code, message + "; column " + std::to_string(at + 1) + where);
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }

  bool take(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void expect_closing(size_t opened) {
    if (take(')')) return;
    if (at_ < text_.size()) fail(at_, "expected &, |, a comma between parts or a parenthesis");
    fail(opened, "the closing parenthesis is missing for the one");
  }

  std::unique_ptr<Mask> either() { return chain('|', "or", &Parser::both); }
  std::unique_ptr<Mask> both() { return chain('&', "and", &Parser::single); }

  std::unique_ptr<Mask> chain(char op, std::string_view name,
                              std::unique_ptr<Mask> (Parser::*operand)()) {
    const size_t start = at_;
    Parts parts;
    parts.push_back((this->*operand)());
    while (take(op)) {
      if (at_ < text_.size() && text_[at_] == op)
        fail(at_, std::string("one ") + op + " is enough");
      if (parts.size() == MaskParts::kMost) fail_too_many(start, name, MaskParts::kMost);
      parts.push_back((this->*operand)());
    }
    if (parts.size() == 1) return std::move(parts[0]);
    return combined(start, maker_named(start, name), std::move(parts));
  }

  std::unique_ptr<Mask> single() {
    skip_blanks();
    const size_t start = at_;
    if (++nesting_ > kMostNesting)
      fail(start, "nested deeper than " + std::to_string(kMostNesting) + " levels");
    std::unique_ptr<Mask> mask;
    if (take('!')) {
      Parts parts;
      parts.push_back(single());
      mask = combined(start, maker_named(start, "not"), std::move(parts));
    } else if (take('(')) {
      mask = either();
      expect_closing(start);
    } else {
      mask = call();
    }
    --nesting_;
    return mask;
  }

  std::unique_ptr<Mask> call() {
    const size_t start = at_;
    at_ = std::min(text_.find_first_of(kNoName, at_), text_.size());
    const MaskMaker& maker = maker_named(start, text_.substr(start, at_ - start));
    if (at_ < text_.size() && text_[at_] == ':') fail_colon(start, maker);
    const size_t opened = (skip_blanks(), at_);
    const bool has_arguments = take('(');
    if (maker.most_parts > 0) {
      if (!has_arguments) fail_no_parts(start, maker);
      Parts parts;
      do {
        if (parts.size() == maker.most_parts)
          fail_too_many(start, maker.declaration->name, maker.most_parts);
        if (skip_blanks(); parts.empty() && at_ < text_.size() && text_[at_] == ')')
          fail_no_parts(start, maker);
        parts.push_back(either());
      } while (take(','));
      expect_closing(opened);
      return combined(start, maker, std::move(parts));
    }
    if (!has_arguments) return with_values(start, maker, {});
    const size_t begin = at_;
    int open = 1;
    for (; at_ < text_.size() && open > 0; ++at_) open += (text_[at_] == '(') - (text_[at_] == ')');
    if (open > 0) fail(opened, "the closing parenthesis is missing for the one");
    const size_t end = at_ - 1;
    return with_values(start, maker, split(begin, end, ","));
  }

  std::unique_ptr<Mask> colon_form(size_t name_end) {
    const size_t start = at_;
    const MaskMaker& maker = maker_named(start, text_.substr(start, name_end - start));
    if (maker.most_parts > 0) fail_no_parts(start, maker);
    if (text_.find_first_of("&|", name_end) != text_.npos) fail_colon(start, maker);
    at_ = text_.size();
    return with_values(start, maker, split(name_end + 1, text_.size(), ",:"));
  }

  // The values between separators outside of parentheses. Blanks alone are no value, except in the
  // colon form.
  std::vector<std::string_view> split(size_t begin, size_t end, std::string_view separators) const {
    std::vector<std::string_view> values;
    const bool colon = separators.size() > 1;
    if (!colon && text_.substr(begin, end - begin).find_first_not_of(kBlanks) == text_.npos)
      return values;
    int open = 0;
    for (size_t i = begin; i <= end; ++i) {
      const char c = i < end ? text_[i] : separators[0];
      if (!colon && i < end) open += (c == '(') - (c == ')');
      if (i < end && (open > 0 || separators.find(c) == separators.npos)) continue;
      values.push_back(text_.substr(begin, i - begin));
      begin = i + 1;
    }
    return values;
  }

  std::unique_ptr<Mask> with_values(size_t start, const MaskMaker& maker,
                                    const std::vector<std::string_view>& values) const {
    std::unique_ptr<Mask> mask = maker.make();
    try {
      // Parameters are members of the most derived class, whose address the setters expect.
      set_parameters(*maker.declaration, dynamic_cast<void*>(mask.get()), values, tensors_);
    } catch (const RefusedArgument& refused) {
      size_t at = start;
      if (refused.index < values.size())
        at = static_cast<size_t>(values[refused.index].data() - text_.data());
      at = std::min(text_.find_first_not_of(kBlanks, at), text_.size());
      fail(at, "mask " + refused.message, refused.code);
    }
    return mask;
  }

  std::unique_ptr<Mask> combined(size_t start, const MaskMaker& maker, Parts parts) const {
    std::unique_ptr<Mask> mask = maker.combine(std::move(parts));
    try {
      check_tree(*mask);
    } catch (const Error& error) {
      fail(start, error.what(), error.code());
    }
    return mask;
  }

  const MaskMaker& maker_named(size_t at, std::string_view name) const {
    std::vector<std::string_view> names;
    std::string list;
    for (const MaskMaker& maker : mask_makers()) {
      if (name == maker.declaration->name) return maker;
      names.push_back(maker.declaration->name);
      list += (list.empty() ? "" : ", ") + std::string(maker.declaration->name);
    }
    constexpr size_t kLongestName = 64;  // a longer word is no misspelt name
    const std::string guess = name.size() > kLongestName ? "" : nearest(name, names);
    const std::string what =
        name.empty() ? "a mask's name is missing" : "there is no mask " + quoted(name);
    fail(at, what + (guess.empty() ? "." : "; did you mean " + guess + "?") + " Known: " + list,
         ErrorCode::unknown_name);
  }

  [[noreturn]] void fail_no_parts(size_t at, const MaskMaker& maker) const {
    const std::string name = maker.declaration->name;
    fail(at, "mask " + name + ": expected the masks that it is made of, " + name +
                 (maker.most_parts > 1 ? "(mask, mask)" : "(mask)"));
  }
  [[noreturn]] void fail_too_many(size_t at, std::string_view name, size_t most) const {
    fail(at, "mask " + std::string(name) + ": more than " + std::to_string(most) +
                 (most == 1 ? " part" : " parts; put some of them into parentheses"));
  }
  [[noreturn]] void fail_colon(size_t at, const MaskMaker& maker) const {
    const std::string name = maker.declaration->name;
    fail(at, "mask " + name + ": the form with a colon stands alone; in a combination write " +
                 name + "(...)");
  }

  std::string_view text_;
  const TensorSource& tensors_;
  size_t at_ = 0;
  int nesting_ = 0;
};

// How tightly the text of a mask binds; a part that binds less needs parentheses.
enum class Binding : uint8_t { either, both, single };

Binding binding_of(const Mask& mask) {
  if (mask.parts().size() < 2) return Binding::single;  // or(a) is written as a call
  if (&mask.declaration() == &Or::kDeclaration) return Binding::either;
  if (&mask.declaration() == &And::kDeclaration) return Binding::both;
  return Binding::single;
}

std::string text_of(const Mask* mask);

// The text of a part within a text that binds as `whole` does. A part of the same kind gets
// parentheses, too, so that the nesting stays the same.
std::string part_text(const Mask* part, Binding whole) {
  const bool loose = part && binding_of(*part) != Binding::single && binding_of(*part) <= whole;
  return loose ? "(" + text_of(part) + ")" : text_of(part);
}

std::string text_of(const Mask* mask) {
  if (!mask) return "<null>";
  const std::span<const Mask* const> parts = mask->parts();
  if (&mask->declaration() == &Not::kDeclaration && parts.size() == 1)
    return "!" + part_text(parts[0], Binding::single);
  const Binding binding = binding_of(*mask);
  std::string text;
  if (binding != Binding::single) {
    for (const Mask* part : parts)
      text += (text.empty()                 ? ""
               : binding == Binding::either ? "|"
                                            : "&") +
              part_text(part, binding);
    return text;
  }
  for (const Mask* part : parts) text += (text.empty() ? "" : ",") + text_of(part);
  const std::string values = parameters_text(mask->declaration(), dynamic_cast<const void*>(mask));
  if (!text.empty() && !values.empty()) text += ",";
  text += values;
  return mask->declaration().name + (text.empty() ? "" : "(" + text + ")");
}

}  // namespace

std::unique_ptr<Mask> make_mask(std::string_view spec, const TensorSource& tensors) {
  return Parser(spec, tensors).parse();
}

std::string to_string(const Mask& mask) {
  check_tree(mask);
  return text_of(&mask);
}

}  // namespace rapt
