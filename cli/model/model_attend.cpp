// rapt model attend: what each token of a text looks at in a trained model.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/input/rows_argument.h"
#include "cli/model/attention_summary.h"
#include "cli/model/encoder_folder.h"
#include "cli/model/model_actions.h"
#include "cli/output/printable.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/output/token_label.h"
#include "cli/process/failure.h"
#include "cli/process/memory.h"
#include "cli/tokenize/text_argument.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using AttendJson = nlohmann::ordered_json;

constexpr size_t kLooksShown = 3;   // of a token, in the table
constexpr size_t kHeadsShown = 10;  // of --find, in the terminal

std::vector<int64_t> shown_tokens(const text::Encoding& encoding, bool hides_special) {
  std::vector<int64_t> shown;
  for (size_t i = 0; i < encoding.ids.size(); ++i)
    if (!hides_special || encoding.texts[i] != text::kTemplateToken)
      shown.push_back(static_cast<int64_t>(i));
  if (shown.empty()) throw Failure(Exit::data, "the text has no token");
  return shown;
}

// The first token that is the word; else the first of those that the word became.
int64_t token_of_word(const text::Encoding& encoding, const std::vector<std::string>& texts,
                      const std::string& word) {
  const auto part = [&](size_t i) {
    const text::ByteSpan span = encoding.spans[i];
    return std::string_view(texts[static_cast<size_t>(encoding.texts[i])])
        .substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
  };
  for (size_t i = 0; i < encoding.ids.size(); ++i)
    if (encoding.texts[i] != text::kTemplateToken && part(i) == word)
      return static_cast<int64_t>(i);
  for (size_t text = 0; text < texts.size(); ++text) {
    const size_t at = texts[text].find(word);
    for (size_t i = 0; at != std::string::npos && i < encoding.ids.size(); ++i)
      if (encoding.texts[i] == static_cast<int>(text) &&
          encoding.spans[i].begin == static_cast<int64_t>(at))
        return static_cast<int64_t>(i);
  }
  throw usage_error("--find: '" + printable(word) + "' is no word of the text");
}

// The tokens that a row of the mean looks at most.
std::vector<size_t> looks_of(const std::vector<float>& mean, size_t row, size_t columns) {
  std::vector<size_t> order(columns);
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t count = std::min(kLooksShown, columns);
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                            std::ranges::greater(),
                            [&](size_t j) { return mean[row * columns + j]; });
  order.resize(count);
  return order;
}

std::string heads_in_words(const AttentionSummary& summary, const ModelSettings& settings) {
  if (settings.layers.size() == 1 && settings.heads.size() == 1)
    return fmt::format("in layer {}, head {}", settings.layers[0], settings.heads[0]);
  return fmt::format("in the mean of {} heads", summary.head_count());
}

void print_looks(const AttentionSummary& summary, const std::vector<float>& mean,
                 const std::vector<std::string>& labels, const ModelSettings& settings) {
  std::printf("%14s   looks most at, %s\n", "token", heads_in_words(summary, settings).c_str());
  for (size_t i = 0; i < summary.mean_rows().size(); ++i) {
    std::string line;
    for (const size_t j : looks_of(mean, i, labels.size()))
      line += fmt::format("  {:.3f} {}", mean[i * labels.size() + j], labels[j]);
    std::printf("%14s %s\n", printable(labels[summary.mean_rows()[i]]).c_str(),
                printable(line).c_str());
  }
}

void print_found(const std::vector<HeadWeight>& found, const ModelSettings& settings) {
  std::printf("%zu head%s in which '%s' looks most at '%s'\n", found.size(),
              found.size() == 1 ? "" : "s", printable(settings.find_from).c_str(),
              printable(settings.find_to).c_str());
  for (size_t i = 0; i < std::min(found.size(), kHeadsShown); ++i)
    std::printf("  layer %2lld  head %2lld  %.4f\n", static_cast<long long>(found[i].layer),
                static_cast<long long>(found[i].head), found[i].weight);
  if (found.size() > kHeadsShown) std::printf("  and %zu more\n", found.size() - kHeadsShown);
}

AttendJson attend_document(const std::vector<std::string>& tokens, const std::vector<float>& mean,
                           const std::vector<size_t>& mean_rows,
                           const std::vector<HeadWeight>* found) {
  AttendJson document = {{"schema", "rapt.model_attend/1"}, {"build", build_info()}};
  document["tokens"] = AttendJson::array();
  for (const std::string& token : tokens)
    document["tokens"].push_back({{"token", printable(token)}, {"looks", nullptr}});
  for (size_t i = 0; i < (mean.empty() ? 0 : mean_rows.size()); ++i) {
    AttendJson looks = AttendJson::array();
    for (const size_t j : looks_of(mean, i, tokens.size()))
      looks.push_back({{"token", j}, {"weight", json_number(mean[i * tokens.size() + j])}});
    document["tokens"][mean_rows[i]]["looks"] = std::move(looks);
  }
  document["found"] = nullptr;
  if (!found) return document;
  document["found"] = AttendJson::array();
  for (const HeadWeight& one : *found)
    document["found"].push_back(
        {{"layer", one.layer}, {"head", one.head}, {"weight", json_number(one.weight)}});
  return document;
}

viz::Heatmap picture_of(const AttentionSummary& summary, std::vector<float> mean,
                        const std::vector<std::string>& labels, const ModelSettings& settings) {
  viz::Heatmap map;
  map.rows = std::ssize(summary.mean_rows());
  map.columns = summary.shown();
  map.values = std::move(mean);
  for (const size_t row : summary.mean_rows()) map.row_labels.push_back(labels[row]);
  map.column_labels = labels;
  map.x_label = "Looked at";
  map.y_label = "Tokens";
  map.title = settings.layers.size() == 1 && settings.heads.size() == 1
                  ? fmt::format("Attention weights of layer {}, head {}", settings.layers[0],
                                settings.heads[0])
                  : "Attention weights, the mean of heads";
  return map;
}

// With --map, whole weights are for pictures alone.
SummaryParts parts_of(const ModelArguments& a, const ModelSettings& settings) {
  const bool finds = !settings.find_from.empty(), writes = !a.output.empty();
  const bool shows_looks = !settings.map && (a.json || !finds);
  const bool all = shows_looks || (writes && !settings.map) || !a.picture.targets.empty();
  return {.weights = all     ? WholeWeights::all
                     : finds ? WholeWeights::found_row
                             : WholeWeights::none,
          .kept = writes};
}

// The bytes of the results that a text of so many tokens has: those of a layer at a time, the mean,
// and what --output keeps of the chosen heads, twice while its tensors are made.
double attention_bytes(const AttendedSizes& sizes, const ModelSettings& settings, int64_t tokens,
                       const std::vector<int64_t>& chosen_rows, SummaryParts parts) {
  const auto n = static_cast<double>(tokens);
  const double rows = chosen_rows.empty() ? n : static_cast<double>(chosen_rows.size());
  const auto chosen = [](const std::vector<int64_t>& given, int64_t all) {
    return given.empty() ? static_cast<double>(all) : static_cast<double>(given.size());
  };
  const double heads = chosen(settings.heads, sizes.heads);
  const double map = settings.map ? static_cast<double>(settings.map->rows) *
                                        static_cast<double>(settings.map->columns)
                                  : 0;
  const double top_k = static_cast<double>(std::min(settings.top_k, tokens));
  const double pooled = map + n * (3 * top_k + 2);
  const double whole = parts.weights == WholeWeights::all         ? rows * n
                       : parts.weights == WholeWeights::found_row ? n
                                                                  : 0;
  const double kept = parts.kept ? 2 * chosen(settings.layers, sizes.layers) * heads *
                                       (pooled + (settings.map ? 0 : rows * n))
                                 : 0;
  const double mean = parts.weights == WholeWeights::all ? 16 * rows * n : 0;
  return 4 * (static_cast<double>(sizes.heads) * (parts.kept ? pooled : 0) + heads * whole + kept) +
         mean + 4 * n * sizes.row_elements;
}

// The tokens of --rows; empty without it.
std::vector<int64_t> rows_of_text(const std::string& text, int64_t tokens) {
  if (text.empty()) return {};
  RowsArgument rows = rows_within("--rows", text, tokens);
  for (int64_t row = rows.begin; row < rows.end; ++row) rows.list.push_back(row);
  if (rows.list.empty()) throw usage_error("--rows: expected at least one row, got '" + text + "'");
  return rows.list;
}

// Names of --output; those of a call without an option for them are not there.
std::vector<std::string> output_names(const ModelSettings& settings) {
  std::vector<std::string> names = {settings.map ? "map" : "weights", "entropy", "received",
                                    "output"};
  if (settings.top_k > 0) names.insert(names.end(), {"top_keys", "top_weights"});
  return names;
}

// What --map prints, which computes no weights for the table.
void print_written(const ModelArguments& a, const ModelSettings& settings, int64_t tokens) {
  std::string names;
  for (const std::string& name : output_names(settings))
    names += (names.empty() ? "" : ", ") + name;
  std::printf("%s of %lld tokens in %s\n", names.c_str(), static_cast<long long>(tokens),
              printable(a.output).c_str());
}

// Writes the tensors, and the tokens as metadata of a .safetensors file.
void write_tensors(TensorOutputs& outputs, const AttentionSummary& summary, const Tensor& output,
                   const std::vector<std::string>& tokens) {
  const std::vector<std::pair<std::string, Tensor>> tensors = summary.tensors();
  for (const auto& [name, tensor] : tensors) outputs.set(name, tensor.view());
  outputs.set("output", output.view());
  const std::string list =
      nlohmann::json(tokens).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  outputs.set_metadata({{"tokens", list}});
  outputs.write();
  outputs.commit();
}

}  // namespace

void run_model_attend(const ModelArguments& a, const ModelSettings& settings) {
  const Overwrite overwrite = a.force ? Overwrite::yes : Overwrite::no;
  Pictures pictures(a.picture, overwrite);
  TensorOutputs outputs(overwrite, NpyV2::refuse);
  if (!a.output.empty())
    for (const std::string& name : output_names(settings))
      outputs.add(name, "--output", place_of("--output", a.output));
  if (a.json && pictures.to_stdout())
    throw usage_error("--json and --heatmap - both print on standard output");

  const AttendedModel model(a.folder);
  std::vector<std::string> texts;
  for (const std::string& argument : a.texts) texts.push_back(text_of_argument(argument));
  const text::Encoding encoding = model_tokens(model.tokenizer(), texts, names_of_texts(a.texts),
                                               model.sizes().longest, a.truncate);
  const int64_t count = std::ssize(encoding.ids);
  const SummaryParts parts = parts_of(a, settings);
  const std::vector<int64_t> rows = rows_of_text(a.rows, count);
  require_memory(attention_bytes(model.sizes(), settings, count, rows, parts), "maps of the heads",
                 "a shorter text, --rows, or --map");

  FoundPair pair;
  if (!settings.find_from.empty())
    pair = {token_of_word(encoding, texts, settings.find_from),
            token_of_word(encoding, texts, settings.find_to)};
  AttentionSummary summary(model.sizes(), settings, shown_tokens(encoding, a.hide_special), rows,
                           count, pair, parts);
  const Tensor output = model.read(encoding, settings.context, summary.captures());

  std::vector<std::string> tokens, labels;
  for (const int64_t id : encoding.ids) tokens.emplace_back(model.tokenizer().token_bytes(id));
  for (const int64_t token : summary.shown_tokens())
    labels.push_back(token_label(tokens[static_cast<size_t>(token)]));
  const std::vector<float> mean = summary.mean();
  const std::vector<HeadWeight> found = summary.found();
  const bool finds = !settings.find_from.empty();
  // Before anything is printed: a document on standard output says that all is done.
  if (!outputs.empty()) write_tensors(outputs, summary, output, tokens);
  if (a.json)
    print_json(attend_document(labels, mean, summary.mean_rows(), finds ? &found : nullptr));
  else if (finds)
    print_found(found, settings);
  else if (!pictures.to_stdout() && mean.empty())
    print_written(a, settings, count);
  else if (!pictures.to_stdout())
    print_looks(summary, mean, labels, settings);
  if (pictures.wanted()) pictures.draw(picture_of(summary, mean, labels, settings));
  pictures.commit();
  finish_stdout();
}

}  // namespace rapt::cli
