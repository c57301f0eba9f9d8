#pragma once
// Reads the parts of a file that every kind of BPE has: settings, and merges by rank.
#include <string>
#include <vector>

#include "text/bpe/merge_table.h"
#include "text/file/read_vocabulary.h"

namespace rapt::text {

// Checks the settings of a model. `byte_fallback`: of a model with byte fallback, or of a
// byte-level one. Throws as check_settings().
void check_bpe_settings(const nlohmann::json& model, bool byte_fallback, const std::string& file);

// Reads model.merges: pairs of tokens, or texts "a b". Throws Error(format).
std::vector<Merge> read_merges(const nlohmann::json& merges, const Vocabulary& vocabulary,
                               const std::string& file);

}  // namespace rapt::text
