#pragma once
// The vocabulary of a file: which text has which id, and the added tokens.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/added_tokens.h"

namespace rapt::text {

struct Vocabulary {
  const nlohmann::json& ids;              // the object "vocab" of the model
  std::vector<const std::string*> texts;  // by id, as they stand in the file
  std::vector<AddedToken> added;
};

// Reads model.vocab and added_tokens. Ids of the model are 0, 1, ... without a gap; added tokens
// that are not among them go on counting. `json`: the whole file, which outlives the result. Throws
// Error(format, unsupported).
Vocabulary read_vocabulary(const nlohmann::json& json, const std::string& file);

// The id of a text that `what` says: "merge 3". Throws Error(format): it is not in the vocabulary.
uint32_t id_of(const Vocabulary& vocabulary, const std::string& text, const std::string& what,
               const std::string& file);

}  // namespace rapt::text
