// docs/json.md lists exactly the fields that --json prints.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/support/run_rapt.h"
#ifdef RAPT_WITH_LANGUAGE_MODELS
#include "cli/support/tiny_language_model.h"
#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"
#endif
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Names = std::set<std::string>;

// Names below "metadata" come from the user and are not collected.
void add_names(const OrderedJson& value, Names& names) {
  if (value.is_object()) {
    for (const auto& [name, member] : value.items()) {
      names.insert(name);
      if (name != "metadata") add_names(member, names);
    }
  }
  if (value.is_array())
    for (const OrderedJson& member : value) add_names(member, names);
}

// Collects the names in a piece of code: `plan.isa`, `stats[].head`, `{"name": "o", "bytes": 1}`.
void add_code(const std::string& code, Names& names) {
  if (code.find('{') != std::string::npos) {
    for (size_t at = 0; (at = code.find('"', at)) != std::string::npos;) {
      const size_t end = code.find('"', at + 1);
      names.insert(code.substr(at + 1, end - at - 1));
      at = end + 1;
    }
    return;
  }
  std::istringstream parts(code);
  for (std::string part; std::getline(parts, part, '.');) {
    if (part.ends_with("[]")) part.resize(part.size() - 2);
    if (!part.empty()) names.insert(part);
  }
}

// All names in the code of a section. With `fields`, only those in the first column of its table.
Names documented(const std::string& section, bool fields) {
  std::ifstream in(RAPT_JSON_PAGE);
  Names names;
  bool inside = section.empty();
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) {
      if (section.empty()) break;
      inside = line == "## `" + section + "`";
      continue;
    }
    if (!inside || (fields && !line.starts_with("| `"))) continue;
    const std::string text = fields ? line.substr(0, line.find(" |", 2)) : line;
    for (size_t at = 0; (at = text.find('`', at)) != std::string::npos;) {
      const size_t end = text.find('`', at + 1);
      if (end == std::string::npos) break;
      add_code(text.substr(at + 1, end - at - 1), names);
      at = end + 1;
    }
  }
  return names;
}

class JsonDocumentsTest : public RaptTest {
 protected:
  JsonDocumentsTest() { save_problem(); }

  void expect_documented(const std::string& schema,
                         const std::vector<std::vector<std::string>>& commands) const {
    Names printed;
    for (const std::vector<std::string>& arguments : commands) {
      const Ran ran = rapt(arguments);
      ASSERT_LE(ran.exit, 1) << ran.err;  // 1: a goal is missed, which the document shows
      const OrderedJson document = OrderedJson::parse(ran.out);
      EXPECT_EQ(document.at("schema"), schema);
      EXPECT_FALSE(document.at("build").get<std::string>().empty());
      add_names(document, printed);
    }
    Names known = documented("", false);
    known.merge(documented(schema, false));
    known.merge(documented("rapt.attend/1", false));  // other sections refer to it
    for (const std::string& name : printed)
      EXPECT_TRUE(known.contains(name)) << schema << ": " << name << " is not in docs/json.md";
    for (const std::string& name : documented(schema, true))
      EXPECT_TRUE(printed.contains(name)) << schema << ": " << name << " is nowhere printed";
  }
};

TEST_F(JsonDocumentsTest, Attend) {
  expect_documented("rapt.attend/1",
                    {attend({"--stats", "--top-k", "2", "--peak", "--json", "--output", "o.npz"}),
                     attend({"--plan", "--json"}),
                     attend({"--grad-output", "q.npy", "--json"}),
                     {"attend", "--text", "a b a", "--stats", "--json"}});
}
TEST_F(JsonDocumentsTest, Explain) { expect_documented("rapt.explain/1", {{"explain", "--json"}}); }
TEST_F(JsonDocumentsTest, Mask) {
  expect_documented("rapt.mask/1", {{"mask", "causal", "--leading", "2,3", "--json"}});
}
TEST_F(JsonDocumentsTest, Info) {
  expect_documented("rapt.info/1", {{"info", "q.npy", "k.npy", "--json"}});
}
TEST_F(JsonDocumentsTest, Usage) { expect_documented("rapt.usage/1", {{"--json-usage"}}); }
TEST_F(JsonDocumentsTest, List) { expect_documented("rapt.list/1", {{"list", "--json"}}); }
TEST_F(JsonDocumentsTest, Cpu) { expect_documented("rapt.cpu/1", {{"cpu", "--json"}}); }
TEST_F(JsonDocumentsTest, Check) {
  expect_documented("rapt.check/1", {{"check", "q4k4d4:weights(0..2)", "--json"}});
}
TEST_F(JsonDocumentsTest, Compare) {
  expect_documented("rapt.compare/1",
                    {{"compare", "--q-len", "16", "--head-dim", "4", "--mask", "causal",
                      "--gradients", "--method", "favor(16)", "--method", "lsh", "--json"}});
}

TEST_F(JsonDocumentsTest, Bench) {
  const Ran old = rapt({"bench", "q4k4d4", "-r", "1", "--json"});
  write("old.json", old.out);
  // The tolerance accepts any time, so that the test does not depend on the machine's speed.
  expect_documented("rapt.bench/1",
                    {{"bench", "q4k4d4", "-r", "1", "--json"},
                     {"bench", "--compare", "old.json", "--tolerance", "1e9", "--json"}});
}
TEST_F(JsonDocumentsTest, Scaling) {
  expect_documented("rapt.scaling/1", {{"plot", "scaling", "--method", "mean", "--heads", "1",
                                        "--head-dim", "8", "--lengths", "16,32", "--json"}});
}
#ifdef RAPT_WITH_LANGUAGE_MODELS
TEST_F(JsonDocumentsTest, Train) {
  if (RAPT_SANITIZED) GTEST_SKIP() << "copying takes minutes under sanitizers";
  expect_documented("rapt.train_example/1",
                    {{"train", "--example", "tiny", "--json"},
                     {"train", "--example", "copy", "--steps", "3", "--json"},
                     {"train", "--example", "reformer-copy", "--steps", "1", "--json"}});
}
TEST_F(JsonDocumentsTest, TrainText) {
  expect_documented("rapt.train_text/1",
                    {{"train", "--text", "poems", "--steps", "2", "--layers", "1", "--heads", "2",
                      "--features", "16", "--block", "16", "--batch", "2", "--json"}});
}
TEST_F(JsonDocumentsTest, Generate) {
  save_tiny_language_model(path("model"));
  const std::vector<std::string> plain = {"generate", "model", "--prompt", "ab",
                                          "--length", "3",     "--json"};
  std::vector<std::string> with_attention = plain;
  with_attention.insert(with_attention.end(), {"--attention", "looked.npy"});
  expect_documented("rapt.generate/1", {plain, with_attention});
}
TEST_F(JsonDocumentsTest, Model) {
  std::filesystem::copy(RAPT_ENCODER_FOLDER, path("encoder"));
  text::write_tokenizer(text::learn_characters("abc"), path("encoder"), Overwrite::no);
  expect_documented("rapt.model_info/1", {{"model", "info", "encoder", "--json"}});
  std::vector<std::string> finding = {"model", "attend", "encoder", "ab", "--json"};
  const std::vector<std::string> plain = finding;
  // One of the two is what "a" looks at most.
  finding.insert(finding.end(), {"--layers", "0", "--heads", "0", "--find"});
  std::vector<std::string> other = finding;
  finding.push_back("a,a");
  other.push_back("a,b");
  expect_documented("rapt.model_attend/1", {plain, finding, other});
  expect_documented("rapt.model_embed/1",
                    {{"model", "embed", "encoder", "a", "b", "--similar", "--json"}});
}
TEST_F(JsonDocumentsTest, Tokenize) {
  save_tiny_language_model(path("model"));
  expect_documented("rapt.tokenize/1", {{"tokenize", "model", "ab", "b", "--json"}});
}
#endif

}  // namespace
}  // namespace rapt::cli_test
