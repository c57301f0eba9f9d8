// rapt model embed: a vector for each text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/input/lines.h"
#include "cli/model/embed_batches.h"
#include "cli/model/encoder_folder.h"
#include "cli/model/model_actions.h"
#include "cli/output/printable.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "cli/tokenize/text_argument.h"
#include "rapt/model/pooling.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

// What Python's str.strip() takes away, in UTF-8.
constexpr std::string_view kSpaces[] = {
    "\t",           "\n",           "\v",           "\f",           "\r",
    "\x1c",         "\x1d",         "\x1e",         "\x1f",         " ",
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
    "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
    "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
    "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

// The package sentence-transformers strips texts; byte-level BPE has tokens for blanks.
std::string stripped(std::string_view text) {
  const auto space_where = [&](auto is_there) {
    const auto found = std::ranges::find_if(kSpaces, is_there);
    return found == std::end(kSpaces) ? size_t{0} : found->size();
  };
  while (const size_t n = space_where([&](auto space) { return text.starts_with(space); }))
    text.remove_prefix(n);
  while (const size_t n = space_where([&](auto space) { return text.ends_with(space); }))
    text.remove_suffix(n);
  return std::string(text);
}

struct EmbedTexts {
  std::vector<std::string> texts, names;  // the latter for messages
};

// Texts as they are given, and the lines of files, without white space at their ends.
EmbedTexts texts_to_embed(const std::vector<std::string>& arguments) {
  const std::vector<std::string> given = names_of_texts(arguments);
  EmbedTexts all;
  std::vector<std::string>& texts = all.texts;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string content = text_of_argument(arguments[i]);
    if (!arguments[i].starts_with('@')) {
      texts.push_back(stripped(content));
      all.names.push_back(given[i]);
      continue;
    }
    int64_t number = 0;
    for (const std::string& line : lines_of(content)) {
      texts.push_back(stripped(line));
      all.names.push_back(fmt::format("line {} of {}", ++number, given[i]));
    }
  }
  if (texts.empty()) throw Failure(Exit::data, "the files have no line");
  return all;
}

// Cosines of all pairs of vectors.
std::vector<double> similarities(const Tensor& vectors) {
  const auto count = static_cast<size_t>(vectors.dim(0)),
             features = static_cast<size_t>(vectors.dim(1));
  const std::span<const float> values = vectors.values<float>();
  const auto product = [&](size_t a, size_t b) {
    double sum = 0;
    for (size_t f = 0; f < features; ++f)
      sum += static_cast<double>(values[a * features + f]) * values[b * features + f];
    return sum;
  };
  std::vector<double> lengths, found;
  found.reserve(count * count);
  for (size_t i = 0; i < count; ++i) lengths.push_back(std::sqrt(product(i, i)));
  for (size_t i = 0; i < count; ++i) {
    stop_if_interrupted();
    for (size_t j = 0; j < count; ++j) {
      const double length = lengths[i] * lengths[j];
      found.push_back(length > 0 ? product(i, j) / length : 0);
    }
  }
  return found;
}

void print_similarities(const std::vector<double>& found, const std::vector<std::string>& texts) {
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string line;
    for (size_t j = 0; j < texts.size(); ++j)
      line += fmt::format("{:7.4f} ", found[i * texts.size() + j]);
    std::printf("%s %s\n", line.c_str(), printable(texts[i]).c_str());
  }
}

nlohmann::ordered_json embed_document(const std::vector<text::Encoding>& encodings,
                                      const Tensor& vectors, const std::vector<double>& similar) {
  nlohmann::ordered_json document = {{"schema", "rapt.model_embed/1"}, {"build", build_info()}};
  document["tokens"] = nlohmann::ordered_json::array();
  for (const text::Encoding& encoding : encodings)
    document["tokens"].push_back(encoding.ids.size());
  document["vectors"] = json_values(vectors.view());
  document["similarities"] = nullptr;
  if (!similar.empty())
    document["similarities"] =
        json_values(TensorView(similar.data(), {vectors.dim(0), vectors.dim(0)}));
  return document;
}

// The bytes of tokens, temporaries, vectors and similarities.
double embed_bytes(const std::vector<std::string>& texts, int64_t longest,
                   const model::EncoderSpec& spec, const ModelArguments& a,
                   const Context& context) {
  constexpr double kToken = 2 * sizeof(int64_t) + sizeof(text::ByteSpan) + sizeof(int);
  constexpr double kJsonNumber = 40;  // a value of a document, and its text
  const auto n = static_cast<double>(texts.size());
  double tokens = 0;  // at most one for each byte, and special ones
  for (const std::string& text : texts)
    tokens += static_cast<double>(std::min(std::ssize(text) + 4, longest));
  const double numbers = n * static_cast<double>(spec.features), pairs = a.similar ? n * n : 0;
  return batch_bytes(spec, tokens, longest, context) + kToken * tokens +
         n * sizeof(text::Encoding) + sizeof(float) * numbers + sizeof(double) * pairs +
         (a.json ? kJsonNumber * (numbers + pairs) : 0);
}

}  // namespace

void run_model_embed(const ModelArguments& a, const ModelSettings& settings) {
  TensorOutputs outputs(a.force ? Overwrite::yes : Overwrite::no, NpyV2::refuse);
  if (!a.output.empty()) outputs.add("vectors", "--output", place_of("--output", a.output));
  const EncoderFolder folder = open_encoder(a.folder);
  const model::Pooling pooling = model::load_pooling(a.folder);
  const int64_t most = folder.encoder.spec.longest();
  const int64_t longest = pooling.longest > 0 ? std::min(pooling.longest, most) : most;
  const auto [texts, names] = texts_to_embed(a.texts);
  require_memory(embed_bytes(texts, longest, folder.encoder.spec, a, settings.context),
                 a.similar ? "vectors, and a similarity for each pair" : "vectors",
                 "fewer texts in a call");
  std::vector<text::Encoding> encodings;
  for (size_t i = 0; i < texts.size(); ++i)
    encodings.push_back(
        model_tokens(folder.tokenizer, {texts[i]}, {names[i]}, longest, a.truncate));
  Tensor vectors = embed_texts(folder, pooling, encodings, settings.context);
  const std::vector<double> similar = a.similar ? similarities(vectors) : std::vector<double>();
  outputs.set("vectors", vectors.view());
  outputs.write();
  outputs.commit();
  if (a.json) return print_json(embed_document(encodings, vectors, similar));
  if (a.similar)
    print_similarities(similar, texts);
  else if (a.output.empty())
    std::fputs(matrix_text(vectors.view(), "").c_str(), stdout);
  finish_stdout();
}

}  // namespace rapt::cli
