#include "cli/model/attended_model.h"

#include "cli/model/encoder_folder.h"
#include "cli/process/memory.h"
#include "cli/tokenize/text_argument.h"

namespace rapt::cli {
namespace {

using EitherModel = std::variant<model::EncoderModel, model::DecoderModel>;

EitherModel load_either(const std::string& folder) {
  if (!model::is_decoder_folder(folder)) return model::load_encoder(folder);
  require_memory(static_cast<double>(model::load_decoder_info(folder).copied_bytes),
                 "the weights that are copied",
                 "a model whose weights are stored in f32, bf16 or f16");
  return model::load_decoder(folder);
}

AttendedSizes sizes_of(const EitherModel& model) {
  if (const auto* const encoder = std::get_if<model::EncoderModel>(&model)) {
    const model::EncoderSpec& spec = encoder->spec;
    return {spec.layers, spec.heads, spec.longest(), encoder_row_elements(spec)};
  }
  const model::DecoderSpec& spec = std::get<model::DecoderModel>(model).spec;
  return {spec.layers, spec.heads, spec.context, model::decoder_sizes(spec).row_elements};
}

int64_t vocabulary_of(const EitherModel& model) {
  return std::visit([](const auto& one) { return one.spec.vocabulary; }, model);
}

text::Tokenizer tokenizer_of_model(const std::string& folder) {
  check_model_folder(folder);
  return tokenizer_at(folder);
}

}  // namespace

AttendedModel::AttendedModel(const std::string& folder)
    : tokenizer_(tokenizer_of_model(folder)),
      model_(load_either(folder)),
      sizes_(sizes_of(model_)) {
  check_token_count(folder, tokenizer_.vocabulary(), vocabulary_of(model_));
}

Tensor AttendedModel::read(const text::Encoding& encoding, const Context& context,
                           const model::EncoderCaptures& captures) const {
  if (const auto* const encoder = std::get_if<model::EncoderModel>(&model_))
    return model::encode(*encoder, {encoding.ids, encoding.types, {}}, context, captures);
  return model::read_text(std::get<model::DecoderModel>(model_), encoding.ids, context, captures);
}

}  // namespace rapt::cli
