// Ids, learned merges and files against those of the package tokenizers (data/make_golden.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/scratch_folder.h"
#include "rapt/text/learn.h"
#include "rapt/text/stream_decoder.h"
#include "rapt/text/tokenizer_file.h"

namespace rapt::test {
namespace {

const std::string kData = RAPT_TEST_DATA;

std::string golden_file(const std::string& name) { return file_bytes(kData + "/" + name); }

TEST(TokenizerGolden, TextsHaveTheIdsOfThePackage) {
  const text::Tokenizer tokenizer = text::read_tokenizer(kData);
  const nlohmann::json golden = nlohmann::json::parse(golden_file("ids.json"));
  for (const nlohmann::json& one : golden["texts"]) {
    const auto given = one["text"].get<std::string>();
    const std::vector<int64_t> ids = tokenizer.encode(given);
    EXPECT_EQ(ids, one["ids"].get<std::vector<int64_t>>()) << given;
    EXPECT_EQ(tokenizer.decode(ids), given);
    text::StreamDecoder decoder(tokenizer);
    std::string streamed;
    for (const int64_t id : ids) streamed += decoder.next(id);
    EXPECT_EQ(streamed + decoder.finish(), given);
  }
}

TEST(TokenizerGolden, FilesAreThoseOfThePackage) {
  const std::string json = golden_file("tokenizer.json");
  EXPECT_EQ(text::tokenizer_json(text::parse_tokenizer(json, "golden")), json);
}

TEST(TokenizerGolden, MergesAreLearnedAsByThePackage) {
  const nlohmann::json golden = nlohmann::json::parse(golden_file("ids.json"));
  const auto learned_from = golden["learned_from"].get<std::string>();
  const text::Tokenizer tokenizer = text::learn_byte_level_bpe(learned_from, 310);
  EXPECT_EQ(text::tokenizer_json(tokenizer), golden_file("learned.json"));
}

}  // namespace
}  // namespace rapt::test
