// rapt cpu: what it says about the machine.
#include <nlohmann/json.hpp>

#include "rapt/instruction_sets.h"
#include "run_rapt.h"

namespace rapt::cli_test {
namespace {

using CpuTest = RaptTest;
using Json = nlohmann::json;

TEST_F(CpuTest, NamesTheSetsTheChosenOneAndWhy) {
  const Ran ran = rapt({"cpu"}, {.env = {{"RAPT_ISA", "scalar"}}});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_TRUE(contains(ran.out, "scalar   chosen: the highest that RAPT_ISA=scalar allows"))
      << ran.out;
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
  std::vector<std::string> chosen;
  for (const InstructionSet& set : instruction_sets()) {
    if (set.chosen) chosen.push_back(set.name);
  }
  std::vector<std::string> said;
  for (const Json& set : document.at("instruction_sets")) {
    if (set.at("chosen").get<bool>()) {
      said.push_back(set.at("name"));
      EXPECT_TRUE(set.at("available").get<bool>());
    }
  }
  EXPECT_EQ(said, chosen);
  EXPECT_GT(document.at("peak").at("fma_gflops").get<double>(), 0);
  EXPECT_GT(document.at("peak").at("read_gb_per_s").get<double>(), 0);
  EXPECT_TRUE(document.at("peak").contains("clock_ghz"));
  for (const char* key : {"l1_data", "l2", "l3"})
    EXPECT_TRUE(document.at("cache_bytes").contains(key));
  EXPECT_TRUE(document.contains("model") && document.contains("build") &&
              document.contains("reason"));
}

TEST_F(CpuTest, AnUnknownSetInTheEnvironmentIsAnError) {
  const Ran ran = rapt({"cpu"}, {.env = {{"RAPT_ISA", "avx9000"}}});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "avx9000")) << ran.err;
}

TEST_F(CpuTest, RefusesUnknownOptions) {
  const Ran ran = rapt({"cpu", "--jsno"});
  EXPECT_EQ(ran.exit, 2);
  EXPECT_TRUE(contains(ran.err, "did you mean '--json'?")) << ran.err;
}

}  // namespace
}  // namespace rapt::cli_test
