// rapt compare as users run it: known answers, refusals, exit codes.
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"

namespace rapt::cli_test {
namespace {

using CompareTest = RaptTest;
using Json = nlohmann::json;

std::vector<std::string> small(const std::vector<std::string>& more) {
  std::vector<std::string> words = {"compare", "--q-len", "64", "--head-dim", "8", "--json"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Json& call(const Json& document, const std::string& name) {
  for (const Json& one : document.at("calls"))
    if (one.at("name") == name) return one;
  throw std::runtime_error("no call " + name);
}

TEST_F(CompareTest, AWindowOfAllKeysIsExact) {
  const Ran ran = rapt(small({"--method", "mask=window(-1,-1)", "--gradients"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("schema"), "rapt.compare/1");
  const Json& all = call(document, "mask=window(-1,-1)");
  for (const char* const of : {"output", "d_query", "d_key", "d_value", "rows_100"})
    EXPECT_EQ(all.at("error").at(of), 0) << of;
  for (const auto& [name, number] : all.at("looked_at").items())
    EXPECT_NEAR(number.get<double>(), 1, 1e-6) << name;
  EXPECT_EQ(all.at("window"), nullptr);
}

TEST_F(CompareTest, TheMeanIsExactWhereAllRowsAreEqual) {
  const Ran ran = rapt(small({"--input", "equal", "--method", "linear"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_LT(call(document, "mean").at("error").at("output").get<double>(), 1e-5);
  EXPECT_LT(call(document, "linear").at("error").at("output").get<double>(), 1e-5);
}

TEST_F(CompareTest, ChunksThatLaterTokensShiftLeak) {
  const Ran ran = rapt(small({"--input", "clustered", "--mask", "causal", "--method",
                              "lsh(rounds=2,chunk=8,cut={row,bucket})"}));
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_GT(call(document, "lsh(rounds=2,chunk=8,cut=row)").at("leak").at("rows"), 0);
  EXPECT_EQ(call(document, "lsh(rounds=2,chunk=8,cut=bucket)").at("leak").at("rows"), 0);
}

TEST_F(CompareTest, ARefusedMethodSaysWhyAndTheOthersGoOn) {
  const Ran some = rapt(small({"--method", "lsh", "--method", "linear"}));
  ASSERT_EQ(some.exit, 0) << some.err;
  EXPECT_NE(call(Json::parse(some.out), "lsh").at("refused"), nullptr);
  const Ran none = rapt(small({"--method", "lsh"}));
  EXPECT_EQ(none.exit, 3);
  EXPECT_TRUE(contains(none.err, "keys=separate")) << none.err;
}

TEST_F(CompareTest, ExitCodesAreThoseOfTheManual) {
  EXPECT_EQ(rapt(small({"--method", "linear", "--max-error", "1e-9"})).exit, 1);
  EXPECT_EQ(rapt(small({"--method", "dtype=f64", "--max-error", "1e-3"})).exit, 0);
  EXPECT_EQ(rapt(small({})).exit, 2);
  EXPECT_EQ(rapt(small({"--method", "liner"})).exit, 2);
  EXPECT_EQ(rapt(small({"--method", "linear", "--input", "nedle"})).exit, 2);
  EXPECT_EQ(rapt(small({"--method", "linear", "--memory-limit", "1K"})).exit, 5);
}

}  // namespace
}  // namespace rapt::cli_test
