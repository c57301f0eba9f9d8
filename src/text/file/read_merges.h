#pragma once
// The merges of a BPE, by rank.
#include <string>
#include <vector>

#include "text/bpe/merge_table.h"
#include "text/file/read_vocabulary.h"

namespace rapt::text {

// Reads model.merges: pairs of tokens, or texts "a b". Throws Error(format).
std::vector<Merge> read_merges(const nlohmann::json& merges, const Vocabulary& vocabulary,
                               const std::string& file);

}  // namespace rapt::text
