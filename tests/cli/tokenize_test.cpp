// rapt tokenize: tables, pairs, files, refusals.
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "cli/support/tiny_language_model.h"
#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::cli_test {
namespace {

using Json = nlohmann::json;

class TokenizeTest : public RaptTest {
 protected:
  TokenizeTest() { save_tiny_language_model(path("model")); }
};

TEST_F(TokenizeTest, PrintsATokenPerLine) {
  const Ran ran = rapt({"tokenize", "model", "ab"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "bytes")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "0:1") && contains(ran.out, "1:2")) << ran.out;
}

TEST_F(TokenizeTest, AFileAndThePartOfItsFolderGiveTheSame) {
  write("text", "ba");
  const Ran given = rapt({"tokenize", "model", "ba"});
  ASSERT_EQ(given.exit, 0) << given.err;
  EXPECT_EQ(rapt({"tokenize", "model", "@text"}).out, given.out);
  EXPECT_EQ(rapt({"tokenize", "model/tokenizer.json", "ba"}).out, given.out);
}

TEST_F(TokenizeTest, CutsAPairAndSaysSo) {
  const Ran ran = rapt({"tokenize", "model", "ab", "ba", "--max-tokens", "2", "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json found = Json::parse(ran.out);
  EXPECT_EQ(found.at("cut"), true);
  ASSERT_EQ(found.at("tokens").size(), 2u);
  EXPECT_EQ(found.at("tokens")[1].at("text"), 1);
  EXPECT_TRUE(
      contains(rapt({"tokenize", "model", "ab", "--max-tokens", "1"}).err, "cut to 1 tokens"));
}

TEST_F(TokenizeTest, TextsInBracketsStayWhole) {
  text::write_tokenizer(text::learn_characters("[],/ INSTabx"), path("model"), Overwrite::yes);
  const Ran ran = rapt({"tokenize", "model", "[a,b]", "[INST] x [/INST]", "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(Json::parse(ran.out).at("bytes"), Json({5, 16}));
  EXPECT_EQ(Json::parse(ran.out).at("tokens").size(), 21u);
}

TEST_F(TokenizeTest, WhatIsMissingIsNamed) {
  EXPECT_EQ(rapt({"tokenize"}).exit, 2);
  EXPECT_EQ(rapt({"tokenize", "model"}).exit, 2);
  EXPECT_EQ(rapt({"tokenize", "model", "a", "b", "a"}).exit, 2);
  const Ran none = rapt({"tokenize", "nowhere", "a"});
  EXPECT_EQ(none.exit, 4);
  EXPECT_TRUE(contains(none.err, "nowhere: no such folder or file")) << none.err;
  std::filesystem::create_directory(folder() / "empty");
  EXPECT_TRUE(contains(rapt({"tokenize", "empty", "a"}).err, "empty: has no tokenizer.json"));
  EXPECT_EQ(rapt({"tokenize", "model", "@nowhere"}).exit, 4);
  const Ran bytes = rapt({"tokenize", "model", "ab", "\xff"});
  EXPECT_EQ(bytes.exit, 3);
  EXPECT_TRUE(contains(bytes.err, ": text 2: expected UTF-8")) << bytes.err;
}

}  // namespace
}  // namespace rapt::cli_test
