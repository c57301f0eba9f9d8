// rapt list prints the catalogue.
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "rapt/catalogue.h"
#include "rapt/dialect.h"

namespace rapt::cli_test {
namespace {

using ListTest = RaptTest;
using Json = nlohmann::json;

TEST_F(ListTest, NamesAllOfTheCatalogueWithParametersAndRanges) {
  const Ran ran = rapt({"list"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const Declaration* declaration : mask_declarations()) {
    EXPECT_TRUE(contains(ran.out, std::string("\n  ") + declaration->name)) << declaration->name;
    EXPECT_TRUE(contains(ran.out, declaration->doc));
  }
  EXPECT_TRUE(contains(ran.out, "  causal(anchor=top-left, offset=0)\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "left         whole number from -1: ")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "anchor       top-left | bottom-right: ")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "  not(MASK)\n")) << ran.out;
  EXPECT_TRUE(contains(ran.out, "  or(MASK, MASK, ...)\n")) << ran.out;
  for (const char* name : {"softcap(", "softmax\n", "safetensors", "bf16"})
    EXPECT_TRUE(contains(ran.out, name)) << name;
}

TEST_F(ListTest, ShowsWhatWasAskedForAlone) {
  const Ran ran = rapt({"list", "dtypes"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("dtypes\n  f32   4 bytes  ")) << ran.out;
  EXPECT_FALSE(contains(ran.out, "causal"));
}

TEST_F(ListTest, JsonHasWhatTheDocumentationLists) {
  const Ran ran = rapt({"list", "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("schema"), "rapt.list/1");
  EXPECT_EQ(document.at("masks").size(), mask_declarations().size());
  EXPECT_EQ(document.at("scores").size(), score_declarations().size());
  EXPECT_EQ(document.at("normalizers").size(), normalizer_declarations().size());
  EXPECT_EQ(document.at("methods").size(), method_declarations().size());
  EXPECT_EQ(document.at("maps").size(), feature_map_declarations().size());
  EXPECT_EQ(document.at("row-changes").size(), row_transform_declarations().size());
  EXPECT_EQ(document.at("products").size(), product_declarations().size());
  EXPECT_EQ(document.at("dialects").size(), dialects().size());
  EXPECT_EQ(document.at("dialects").at(2).at("name"), "flash-attn");
  EXPECT_EQ(document.at("dialects").at(2).at("causal_anchor"), "bottom-right");
  EXPECT_EQ(document.at("dialects").at(2).at("lse_without_keys"), "inf");
  const Json& causal = document.at("masks").at(0);
  EXPECT_EQ(causal.at("name"), "causal");
  EXPECT_EQ(causal.at("most_parts"), 0);
  EXPECT_EQ(causal.at("parameters").at(0), Json::parse(R"({"name": "anchor", "type": "choice",
                            "doc": "which corner of the matrix the diagonal runs through",
                            "range": null, "choices": ["top-left", "bottom-right"],
                            "required": false, "default": "top-left"})"));
  for (const Json& mask : document.at("masks")) {
    if (mask.at("name") == "or") {
      EXPECT_GT(mask.at("most_parts"), 1);
    }
    if (mask.at("name") == "lengths") {
      EXPECT_EQ(mask.at("parameters").at(0).at("required"), true);
    }
  }
  EXPECT_EQ(document.at("dtypes").at(0).at("bytes"), 4);
  EXPECT_FALSE(document.at("formats").empty());
  EXPECT_EQ(Json::parse(rapt({"list", "scores", "--json"}).out).size(), 3u);
}

// The words of favor's kind and linear's map are the names of the list, in its order.
TEST_F(ListTest, MapsAreTheChoicesOfTheMethods) {
  const Json document = Json::parse(rapt({"list", "maps", "methods", "--json"}).out);
  std::vector<std::string> names, choices;
  for (const Json& map : document.at("maps")) names.push_back(map.at("name"));
  for (const Json& method : document.at("methods"))
    for (const Json& parameter : method.at("parameters"))
      if (parameter.at("name") == "kind" || parameter.at("name") == "map")
        for (const Json& choice : parameter.at("choices")) choices.push_back(choice);
  EXPECT_EQ(names, choices);
}

TEST_F(ListTest, EveryFormatIsWritten) {
  save("in.npy", filled(DType::f32, {2, 3}, 1));
  const Json document = Json::parse(rapt({"list", "formats", "--json"}).out);
  for (const Json& format : document.at("formats")) {
    const std::string file = "out" + format.at("ending").get<std::string>();
    const bool picture = contains(format.at("doc"), "picture");
    const Ran ran = rapt(picture ? std::vector<std::string>{"mask", "causal", "--heatmap", file}
                                 : std::vector<std::string>{"convert", "in.npy", file});
    EXPECT_EQ(ran.exit, 0) << file << ran.err;
    EXPECT_NE(read(file), "");
  }
}

TEST_F(ListTest, RefusesAnUnknownKind) {
  const Ran ran = rapt({"list", "mask"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "did you mean 'masks'?")) << ran.err;
}

}  // namespace
}  // namespace rapt::cli_test
