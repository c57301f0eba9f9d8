#include "check/spec/row_spec.h"

#include <vector>

#include "check/tensors/arrays.h"

namespace check {
namespace {

std::string in_brackets(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "(" : ",") + item;
  return text.empty() ? "" : text + ")";
}

std::string to_string(const CountedRows& rows) {
  std::string text = std::to_string(rows.start);
  if (rows.step != 1) text += (rows.step < 0 ? "" : "+") + std::to_string(rows.step) + "i";
  return text;
}

std::string to_string(const RotarySpec& rotary) {
  const RotarySpec plain;
  std::vector<std::string> items;
  if (rotary.interleaved) items.push_back("interleaved");
  if (rotary.dims != plain.dims) items.push_back("dims=" + std::to_string(rotary.dims));
  if (rotary.theta != plain.theta) items.push_back("theta=" + number_text(rotary.theta));
  if (rotary.magnitude != plain.magnitude)
    items.push_back("magnitude=" + number_text(rotary.magnitude));
  if (rotary.query != plain.query) items.push_back("query=" + to_string(rotary.query));
  if (rotary.key != plain.key) items.push_back("key=" + to_string(rotary.key));
  if (!rotary.turns_key) items.push_back("query-only");
  return "rotary" + in_brackets(items);
}

}  // namespace

std::string to_string(const RowSpec& rows) {
  std::string text;
  if (rows.cosine) {
    text = "cosine";
    if (*rows.cosine != RowSpec::kEpsilon) text += in_brackets({number_text(*rows.cosine)});
  }
  if (rows.rotary) text += (text.empty() ? "" : "+") + to_string(*rows.rotary);
  return text;
}

}  // namespace check
