#pragma once
// What stands around texts: special tokens, and the type of each token (token_type_ids).
#include <cstdint>
#include <vector>

namespace rapt::text {

// A part of a template: the tokens of a text, or tokens of its own.
struct TemplatePart {
  int text = -1;  // 0 or 1; -1: `ids`
  std::vector<uint32_t> ids;
  int64_t type = 0;

  bool operator==(const TemplatePart&) const = default;
};

// How spans of byte-level BPE are made narrower.
enum class TrimSpans : uint8_t {
  no,
  blanks,            // without blanks at the ends
  blanks_but_first,  // but a single blank in front of a text counts to its first token
};

struct SequenceTemplate {
  std::vector<TemplatePart> single = {{.text = 0, .ids = {}, .type = 0}};
  // Without a template of its own a pair is one text behind the other.
  std::vector<TemplatePart> pair = {{.text = 0, .ids = {}, .type = 0},
                                    {.text = 1, .ids = {}, .type = 1}};
  TrimSpans trim = TrimSpans::no;
};

}  // namespace rapt::text
