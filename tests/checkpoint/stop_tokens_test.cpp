// The tokens that end a text, from config.json and generation_config.json.
#include <gtest/gtest.h>

#include "io/scratch_folder.h"
#include "rapt/checkpoint/model_config.h"
#include "rapt/checkpoint/model_files.h"

namespace {

using namespace rapt;
using checkpoint::load_stop_tokens;
using checkpoint::read_stop_tokens;
using test::make_file;
using test::ScratchFolder;
using Tokens = std::vector<int64_t>;

TEST(StopTokens, AreOneOrAListOrNone) {
  EXPECT_EQ(read_stop_tokens(R"({"eos_token_id": 50256})"), Tokens{50256});
  EXPECT_EQ(read_stop_tokens(R"({"eos_token_id": [3, 1]})"), (Tokens{3, 1}));
  EXPECT_EQ(read_stop_tokens(R"({"eos_token_id": []})"), Tokens{});
  EXPECT_EQ(read_stop_tokens(R"({"eos_token_id": null})"), Tokens{});
  EXPECT_EQ(read_stop_tokens("{}"), Tokens{});
}

TEST(StopTokens, RejectWhatIsNoToken) {
  for (const std::string value : {"-1", "1.5", "\"a\"", "[1, null]", "[[1]]", "true"})
    test::expect_error(
        ErrorCode::format, [&] { read_stop_tokens("{\"eos_token_id\": " + value + "}"); },
        "eos_token_id", "an integer, 0 or more, or a list");
}

TEST(StopTokens, AreThoseOfGenerationWhereItHasSome) {
  const ScratchFolder folder;
  make_file(folder / "config.json", R"({"eos_token_id": 5})");
  EXPECT_EQ(load_stop_tokens(folder.path()), Tokens{5});
  make_file(folder / "generation_config.json", R"({"temperature": 0.6})");
  EXPECT_EQ(load_stop_tokens(folder.path()), Tokens{5});
  make_file(folder / "generation_config.json", R"({"eos_token_id": [5, 7]})");
  EXPECT_EQ(load_stop_tokens(folder.path()), (Tokens{5, 7}));
}

}  // namespace
