// The texts of --method: lists in braces, methods, options that differ.
#include "cli/alternatives/alternative.h"

#include <gtest/gtest.h>

#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

std::vector<std::string> texts_of(const std::vector<std::string>& given) {
  std::vector<std::string> texts;
  for (const AlternativeSpec& spec : alternative_specs(given)) texts.push_back(spec.text);
  return texts;
}

// The message of what is refused, here or when the alternative is made; "" if nothing is.
std::string refused(const std::string& text) {
  try {
    for (AlternativeSpec& spec : alternative_specs({text})) Alternative(std::move(spec), nullptr);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.exit(), Exit::usage) << text;
    return std::string(failure.what()) + (failure.hint().empty() ? "" : " | " + failure.hint());
  }
  return "";
}

TEST(AlternativeTest, ListsInBracesMakeOneOfEachValue) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of({"lsh", "mean"}), (Texts{"lsh", "mean"}));
  EXPECT_EQ(texts_of({"favor(features={16,64})"}),
            (Texts{"favor(features=16)", "favor(features=64)"}));
  EXPECT_EQ(texts_of({"lsh(rounds={1,2},chunk={8,16})"}),
            (Texts{"lsh(rounds=1,chunk=8)", "lsh(rounds=1,chunk=16)", "lsh(rounds=2,chunk=8)",
                   "lsh(rounds=2,chunk=16)"}));
  EXPECT_EQ(texts_of({"mask={window(16,0),window({32,64},0),causal}"}),
            (Texts{"mask=window(16,0)", "mask=window(32,0)", "mask=window(64,0)", "mask=causal"}));
  for (const AlternativeSpec& spec : alternative_specs({"favor(features={16,64})"}))
    EXPECT_EQ(spec.list, "favor(features={16,64})");
}

TEST(AlternativeTest, AWordBeforeEqualsIsTheOptionThatDiffers) {
  const auto specs = alternative_specs(
      {"mask=window(4,0)", "precision=fast", "dtype=bf16", "norm=entmax(1.5)", "lsh(rounds=2)"});
  const Changed changed[] = {Changed::mask, Changed::precision, Changed::dtype, Changed::normalizer,
                             Changed::method};
  const char* const values[] = {"window(4,0)", "fast", "bf16", "entmax(1.5)", "lsh(rounds=2)"};
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(specs[i].changed, changed[i]) << specs[i].text;
    EXPECT_EQ(specs[i].value, values[i]);
  }
}

TEST(AlternativeTest, AppliesWhatDiffersAndNothingElse) {
  const auto options_of = [](const std::string& text, const Alternative& made) {
    AttentionOptions options;
    made.apply(options);
    EXPECT_EQ(options.method != nullptr, text == "mean") << text;
    EXPECT_EQ(options.precision == Precision::fma, text == "precision=fma") << text;
    EXPECT_EQ(options.normalizer.statistic == Statistic::threshold, text == "norm=entmax15")
        << text;
    return options;
  };
  for (const std::string text : {"mean", "precision=fma", "norm=entmax15", "dtype=f64"}) {
    const Alternative made(alternative_specs({text})[0], nullptr);
    options_of(text, made);
    EXPECT_EQ(made.dtype().has_value(), text == "dtype=f64");
  }
  MemoryBudget budget(1 << 20);
  TensorInput files(budget);
  const Alternative window(alternative_specs({"mask=window(4,0)"})[0], &files);
  EXPECT_EQ(options_of("mask", window).masks.size(), 1u);
}

TEST(AlternativeTest, SeedsCountFromThatOfTheText) {
  Alternative favor(alternative_specs({"favor(seed=5)"})[0], nullptr);
  ASSERT_TRUE(favor.is_random());
  favor.move_seed(3);
  EXPECT_EQ(to_string(*favor.method()), "favor(seed=8)");
  favor.move_seed(0);
  EXPECT_EQ(to_string(*favor.method()), "favor(seed=5)");
  EXPECT_FALSE(Alternative(alternative_specs({"linear"})[0], nullptr).is_random());
  EXPECT_FALSE(Alternative(alternative_specs({"dtype=bf16"})[0], nullptr).is_random());
}

TEST(AlternativeTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> wrong[] = {
      {"lsg", "did you mean lsh"},
      {"lsh(round=2)", "did you mean rounds"},
      {"msk=causal", "did you mean 'mask'?"},
      {"mask=causl", "did you mean causal"},
      {"mask=", "expected a value behind '='"},
      {"precision=fastest", "expected auto, fma or fast"},
      {"dtype=i64", "expected f32, bf16, f16 or f64"},
      {"norm=softmx", "did you mean softmax"},
      {"favor(features={1,2)", "'}' is missing"},
      {"favor(features=1,2})", "'}' without '{'"},
      {"favor(features={})", "expected values with commas"},
      {"lsh(rounds={1,2,3,4,5},chunk={1,2,3,4,5},buckets={2,4,6})", "more than 64"},
      {"lsh(rounds=0)", "rounds"}};
  for (const auto& [text, part] : wrong) {
    const std::string message = refused(text);
    EXPECT_NE(message.find("--method"), std::string::npos) << text << ": " << message;
    EXPECT_NE(message.find(part), std::string::npos) << text << ": " << message;
  }
  EXPECT_NE(refused(std::string(5000, '{')).find("5000 characters"), std::string::npos);
  EXPECT_EQ(refused("lsh(rounds={1,2,3,4,5,6,7,8},chunk={1,2,3,4,5,6,7,8})"), "");
}

}  // namespace
}  // namespace rapt::cli
