// rapt tokenize: the tokens of a text, or of a pair of texts, with the places they come from.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/input/run_folder.h"
#include "cli/output/printable.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/tokenize/text_argument.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

using TokenizeJson = nlohmann::ordered_json;

struct TokenizeArguments {
  std::string path, most_tokens;
  std::vector<std::string> texts;
  bool no_special = false, json = false;
};

text::EncodeOptions encode_options(const TokenizeArguments& a) {
  if (a.path.empty()) throw usage_error("expected a folder with tokenizer.json, and a text");
  if (a.texts.empty() || a.texts.size() > 2)
    throw usage_error(fmt::format("expected one text, or two as a pair, got {}", a.texts.size()));
  return {.special_tokens = !a.no_special,
          .most_tokens = integer_from("--max-tokens", a.most_tokens, 0, 1)};
}

TokenizeJson tokenize_document(const text::Tokenizer& tokenizer, const text::Encoding& encoding,
                               const std::vector<std::string>& texts) {
  TokenizeJson document = {{"schema", "rapt.tokenize/1"}, {"build", build_info()}};
  document["vocabulary"] = tokenizer.vocabulary();
  document["bytes"] = TokenizeJson::array();
  for (const std::string& text : texts) document["bytes"].push_back(text.size());
  document["cut"] = encoding.cut;
  document["tokens"] = TokenizeJson::array();
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    TokenizeJson token = {{"id", encoding.ids[i]},
                          {"token", printable(tokenizer.token_bytes(encoding.ids[i]))},
                          {"type", encoding.types[i]}};
    token["text"] = nullptr;
    token["begin"] = nullptr;
    token["end"] = nullptr;
    if (encoding.texts[i] != text::kTemplateToken) {
      token["text"] = encoding.texts[i];
      token["begin"] = encoding.spans[i].begin;
      token["end"] = encoding.spans[i].end;
    }
    document["tokens"].push_back(std::move(token));
  }
  return document;
}

void print_tokens(const text::Tokenizer& tokenizer, const text::Encoding& encoding, bool is_pair) {
  std::printf("%8s  %-12s%s  token\n", "id", "bytes", is_pair ? "  text" : "");
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    const bool of_text = encoding.texts[i] != text::kTemplateToken;
    const text::ByteSpan span = encoding.spans[i];
    const std::string place = of_text ? fmt::format("{}:{}", span.begin, span.end) : "-";
    const std::string text = !is_pair  ? ""
                             : of_text ? fmt::format("{:>6}", encoding.texts[i])
                                       : fmt::format("{:>6}", "-");
    std::printf("%8lld  %-12s%s  %s\n", static_cast<long long>(encoding.ids[i]), place.c_str(),
                text.c_str(), printable(tokenizer.token_bytes(encoding.ids[i])).c_str());
  }
  finish_stdout();
}

void run_tokenize(const TokenizeArguments& a) {
  const text::EncodeOptions options = encode_options(a);
  const text::Tokenizer tokenizer = tokenizer_at(model_folder_of(a.path));
  std::vector<std::string> texts;
  for (const std::string& argument : a.texts) texts.push_back(text_of_argument(argument));
  const text::Encoding encoding = encode_named(tokenizer, texts, names_of_texts(a.texts), options);
  if (a.json) return print_json(tokenize_document(tokenizer, encoding, texts));
  print_tokens(tokenizer, encoding, texts.size() == 2);
  if (encoding.cut)
    std::fprintf(stderr, "cut to %lld tokens\n", static_cast<long long>(encoding.ids.size()));
}

}  // namespace

Command add_tokenize(CLI::App& root) {
  CLI::App* app = root.add_subcommand("tokenize", "the tokens of a text, and where they come from");
  const auto a = arguments_of<TokenizeArguments>(*app);
  app->add_option("DIR", a->path, "a folder with tokenizer.json, or such a file")->type_name("");
  app->add_option("TEXT", a->texts, "one text, or two as a pair; @FILE reads a file")
      ->type_name("");
  app->add_flag("--no-special", a->no_special,
                "without the special tokens that the tokenizer puts around a text");
  app->add_option("--max-tokens", a->most_tokens,
                  "cut the texts to N tokens in all, the longer one first (default: any number)")
      ->type_name("N");
  app->add_flag("--json", a->json, "the same for programs (docs/json.md)");
  app->footer(
      "Bytes are those of the text that a token comes from, the end excluded. A token that the\n"
      "tokenizer puts around a text has none.\n\n"
      "  rapt tokenize model \"The cat sat\"\n"
      "  rapt tokenize model/tokenizer.json @notes.txt --json");
  return {app, [a] { encode_options(*a); }, [a] { run_tokenize(*a); }};
}

}  // namespace rapt::cli
