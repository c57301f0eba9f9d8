#pragma once
// The post_processor of a file: what stands around texts.
#include <nlohmann/json.hpp>
#include <string>

#include "text/encoding/sequence_template.h"

namespace rapt::text {

// Reads null, ByteLevel, BertProcessing, RobertaProcessing, TemplateProcessing, and a Sequence of
// these. `tokens`: more than any id. Throws Error(format, unsupported).
SequenceTemplate read_template(const nlohmann::json& post_processor, size_t tokens,
                               const std::string& file);

}  // namespace rapt::text
