// rapt cpu: its report on the machine.
#include <nlohmann/json.hpp>

#include "cli/support/run_rapt.h"
#include "rapt/instruction_sets.h"

namespace rapt::cli_test {
namespace {

using CpuTest = RaptTest;
using Json = nlohmann::json;

TEST_F(CpuTest, NamesTheSetsTheChosenOneAndWhy) {
  const Ran ran = rapt({"cpu"}, {.env = {{"RAPT_ISA", "scalar"}}});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "scalar       chosen: the highest that RAPT_ISA=scalar allows"))
      << ran.out;
  if (contains(ran.out, "amx_emulated")) {
    EXPECT_TRUE(contains(ran.out, ": tile registers in plain C++, for tests\n")) << ran.out;
  }
  for (const char* name : {"caches", "f32 peak", "clock", "read"}) {
    EXPECT_TRUE(contains(ran.out, name)) << ran.out;
  }
  EXPECT_EQ(ran.err, "");
}

TEST_F(CpuTest, JsonHasWhatTheDocumentationLists) {
  const Ran ran = rapt({"cpu", "--json"});
  ASSERT_EQ(ran.exit, 0) << ran.err;
  const Json document = Json::parse(ran.out);
  EXPECT_EQ(document.at("schema"), "rapt.cpu/1");
  std::vector<std::string> chosen, notes;
  for (const InstructionSet& set : instruction_sets()) {
    if (set.chosen) chosen.push_back(set.name);
    notes.push_back(set.note);
  }
  std::vector<std::string> said, said_notes;
  for (const Json& set : document.at("instruction_sets")) {
    said_notes.push_back(set.at("note"));
    if (set.at("chosen").get<bool>()) {
      said.push_back(set.at("name"));
      EXPECT_TRUE(set.at("available").get<bool>());
    }
  }
  EXPECT_EQ(said, chosen);
  EXPECT_EQ(said_notes, notes);
  EXPECT_GT(document.at("peak").at("fma_gflops").get<double>(), 0);
  EXPECT_GT(document.at("peak").at("read_gb_per_s").get<double>(), 0);
  EXPECT_TRUE(document.at("peak").contains("clock_ghz"));
  for (const char* key : {"l1_data", "l2", "l3"})
    EXPECT_TRUE(document.at("cache_bytes").contains(key));
  EXPECT_TRUE(document.contains("model") && document.contains("build") &&
              document.contains("reason"));
}

TEST_F(CpuTest, MeasuresTileRegistersWhereTheSetHasSome) {
  const auto tiles = [&](const char* isa) {
    const Ran ran = rapt({"cpu", "--json"}, {.env = {{"RAPT_ISA", isa}}});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return Json::parse(ran.out).at("peak").at("tile_gflops");
  };
  EXPECT_TRUE(tiles("scalar").is_null());
  for (const InstructionSet& set : instruction_sets())
    if (set.available && std::string(set.name).starts_with("amx")) {
      EXPECT_GT(tiles(set.name).get<double>(), 0) << set.name;
    }
}

TEST_F(CpuTest, AnUnknownSetInTheEnvironmentIsAnError) {
  const Ran ran = rapt({"cpu"}, {.env = {{"RAPT_ISA", "avx9000"}}});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "avx9000")) << ran.err;
}

TEST_F(CpuTest, TellsTheBf16DotProductAndWhoDecided) {
  const auto document = [&](const char* isa, const char* bf16) {
    const Ran ran = rapt({"cpu", "--json"}, {.env = {{"RAPT_ISA", isa}, {"RAPT_BF16", bf16}}});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    return Json::parse(ran.out).at("bf16_dot");
  };
  const Json none = document("scalar", "");  // the scalar set has no such product
  EXPECT_EQ(none,
            Json({{"available", false}, {"used", false}, {"forced", false}, {"speed", nullptr}}));
  if (!bf16_dot().available) return;
  const Json fma = document("", "fma");
  EXPECT_EQ(fma.at("used"), false);
  EXPECT_EQ(fma.at("forced"), true);
  EXPECT_GT(fma.at("speed").get<double>(), 0);
  const Ran forced = rapt({"cpu"}, {.env = {{"RAPT_BF16", "dot"}}});
  EXPECT_TRUE(contains(forced.out, "bf16 dot      used for bf16: ")) << forced.out;
  EXPECT_TRUE(contains(forced.out, "RAPT_BF16 decided")) << forced.out;
  EXPECT_EQ(rapt({"cpu"}, {.env = {{"RAPT_BF16", "sometimes"}}}).exit, 2);
}

TEST_F(CpuTest, TellsTheDefaultNumberOfThreads) {
  const How three = {.env = {{"RAPT_THREADS", "3"}}};
  EXPECT_EQ(Json::parse(rapt({"cpu", "--json"}, three).out).at("threads"), 3);
  EXPECT_TRUE(contains(rapt({"cpu"}, three).out, "threads       3 ")) << rapt({"cpu"}, three).out;
  EXPECT_EQ(rapt({"cpu"}, {.env = {{"RAPT_THREADS", "-1"}}}).exit, 3);
}

TEST_F(CpuTest, RefusesUnknownOptions) {
  const Ran ran = rapt({"cpu", "--jsno"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "did you mean '--json'?")) << ran.err;
}

}  // namespace
}  // namespace rapt::cli_test
