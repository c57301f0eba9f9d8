#include "text/file/read_merges.h"

#include <utility>

#include "text/file/json_text.h"
#include "text/file/settings.h"

namespace rapt::text {
namespace {

using Json = nlohmann::json;

// The two texts of a merge: a pair, or one text with a blank between them.
std::pair<std::string, std::string> read_pair(const Json& merge, const std::string& what,
                                              const std::string& file) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t blank = text.find(' ');
    if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos)
      return {text.substr(0, blank), text.substr(blank + 1)};
  }
  fail_malformed(file, what + ": expected two tokens, got " + shown(merge));
}

}  // namespace

void check_bpe_settings(const Json& model, bool byte_fallback, const std::string& file) {
  using enum Presence;
  std::vector<Json> ignores_merges = {false};
  if (!byte_fallback) ignores_merges.emplace_back(true);
  check_settings(model, "model BPE",
                 {{"type", optional, {}},
                  {"dropout", optional, {nullptr}},
                  // Options of unknown characters have no effect: neither kind has any.
                  {"unk_token", optional, {}},
                  {"fuse_unk", optional, {}},
                  {"byte_fallback", optional, {byte_fallback}},
                  {"continuing_subword_prefix", optional, {nullptr, ""}},
                  {"end_of_word_suffix", optional, {nullptr, ""}},
                  {"ignore_merges", optional, ignores_merges},
                  {"vocab", required, {}},
                  {"merges", required, {}}},
                 file);
}

std::vector<Merge> read_merges(const Json& merges, const Vocabulary& vocabulary,
                               const std::string& file) {
  if (!merges.is_array()) fail_malformed(file, "merges: expected an array, got " + shown(merges));
  std::vector<Merge> read;
  read.reserve(merges.size());
  for (const Json& merge : merges) {
    const std::string what = "merge " + std::to_string(read.size());
    const auto [left, right] = read_pair(merge, what, file);
    read.push_back({.left = id_of(vocabulary, left, what, file),
                    .right = id_of(vocabulary, right, what, file),
                    .id = id_of(vocabulary, left + right, what, file)});
  }
  return read;
}

}  // namespace rapt::text
