#pragma once
// A trained model that `rapt model attend` looks into, an encoder or a decoder, with its tokenizer.
#include <cstdint>
#include <string>
#include <variant>

#include "rapt/model/decoder_model.h"
#include "rapt/model/encoder_model.h"
#include "rapt/text/encoding.h"

namespace rapt::cli {

// The sizes that memory depends on.
struct AttendedSizes {
  int64_t layers, heads, longest;
  double row_elements;  // numbers that a call keeps of one token
};

class AttendedModel {
 public:
  // Throws as open_encoder(), and Error as model::load_decoder().
  explicit AttendedModel(const std::string& folder);

  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const AttendedSizes& sizes() const { return sizes_; }

  // The output of the last layer, [tokens, features]. Throws as model::encode(),
  // model::read_text().
  Tensor read(const text::Encoding& encoding, const Context& context,
              const model::EncoderCaptures& captures) const;

 private:
  text::Tokenizer tokenizer_;
  std::variant<model::EncoderModel, model::DecoderModel> model_;
  AttendedSizes sizes_;
};

}  // namespace rapt::cli
