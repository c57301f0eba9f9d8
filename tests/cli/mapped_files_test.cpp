// Large files are mapped and not copied: a command needs memory only for the parts that it reads.
// The files here are sparse, 1 GiB without disk usage.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/support/run_rapt.h"
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

constexpr int64_t kRows = 4 * kMiB;  // rows of 64 f32: 1 GiB
constexpr int64_t kLittle =
    256 * kMiB;  // far more than the program needs itself, even with sanitizers

class MappedFilesTest : public RaptTest {
 protected:
  // Like save_zeros(), as a .safetensors file with a second tensor behind the first.
  void save_safetensors(const std::string& name) const {
    std::ostringstream header;
    const int64_t big = kRows * 256, small = 1024 * 256;
    header << R"({"big":{"dtype":"F32","shape":[)" << kRows << R"(,64],"data_offsets":[0,)" << big
           << R"(]},"small":{"dtype":"F32","shape":[1024,64],"data_offsets":[)" << big << ","
           << big + small << "]}}";
    std::string text = header.str();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::string length(8, '\0');
    for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
    write(name, length + text);
    std::filesystem::resize_file(path(name),
                                 static_cast<uintmax_t>(8 + std::ssize(text) + big + small));
  }

  // A value of /proc/PID/status in bytes; 0 if it is missing.
  static int64_t held(int child, const std::string& what) {
    std::ifstream in("/proc/" + std::to_string(child) + "/status");
    for (std::string word; in >> word;) {
      int64_t kibibytes = 0;
      if (word == what + ":" && in >> kibibytes) return kibibytes * 1024;
    }
    return 0;
  }
};

TEST_F(MappedFilesTest, WhatIsNotNeededTakesNoMemory) {
  save_zeros("big.npy", kRows);
  save_zeros("row.npy", 1);
  save_safetensors("big.safetensors");
  const auto attend = [](const std::string& file) {
    return std::vector<std::string>{"attend",      "--query",  "row.npy", "--key",
                                    file,          "--value",  file,      "--mask",
                                    "prefix:1000", "--output", "o.npy",   "--force"};
  };
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"info", "--no-stats", "big.npy", "big.safetensors"},
        {"info", "big.safetensors:small"},
        {"convert", "big.safetensors:small", "s.npy"},
        attend("big.npy"),
        attend("big.safetensors:big"),
        attend("big.safetensors:small")}) {
    const Ran ran = rapt(arguments);
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_LT(ran.peak_bytes, kLittle) << arguments[0] << " " << arguments.back();
    EXPECT_GT(ran.peak_bytes, 0);
  }
}

TEST_F(MappedFilesTest, WhatIsNeededIsNotCopied) {
  constexpr int64_t kSome = kRows / 4;  // 256 MiB, which pass through a pipe quickly
  save_zeros("big.npy", kSome);
  int64_t own = 0, of_files = 0;
  // The output is a pipe, so that all pages are read and the copy lasts long enough to observe the
  // process.
  const Ran ran = rapt({"convert", "big.npy", "-"}, {.watch = [&](int child, auto&) {
                         own = std::max(own, held(child, "RssAnon"));
                         of_files = std::max(of_files, held(child, "RssFile"));
                         return false;
                       }});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(std::ssize(ran.out), 128 + kSome * 256);
  if (of_files == 0) GTEST_SKIP() << "the system does not tell RssAnon and RssFile";
  EXPECT_LT(own, 128 * kMiB);
  EXPECT_GT(of_files, 128 * kMiB) << "the pages of the file itself";
}

// Pages of the inputs belong to their files. The process grows by what the plan predicts.
TEST_F(MappedFilesTest, GrowthIsThatOfResultsAndWork) {
  if (RAPT_SANITIZED) GTEST_SKIP() << "sanitizers take memory of their own for every byte";
  constexpr int64_t kSome = kRows / 16, kBytes = kSome * 256;  // 64 MiB
  // Memory that is neither planned nor a mapped page: heap and stack, a few MiB at most. Linux's
  // counts may also lag by tens of pages per CPU that the process has run on.
  constexpr int64_t kSlack = kBytes / 4;
  save_zeros("big.npy", kSome);
  save_zeros("row.npy", 1);
  for (const auto& [query, key] :
       {std::pair("big.npy", "row.npy"), std::pair("row.npy", "big.npy")}) {
    SCOPED_TRACE(std::string("query ") + query);
    const Ran ran = rapt({"attend", "--query", query, "--key", key, "--value", key, "--output",
                          "o.npy", "--force", "--threads", "1", "--json"});
    ASSERT_EQ(ran.exit, 0) << ran.err;
    const auto document = nlohmann::json::parse(ran.out);
    const auto& growth = document.at("memory").at("growth_bytes");
    if (growth.is_null()) GTEST_SKIP() << "the system does not tell what a process holds";
    const int64_t results = document.at("plan").at("result_bytes");
    const int64_t work = document.at("plan").at("workspace_bytes");
    EXPECT_LT(growth.get<int64_t>(), results + work + kSlack);
    EXPECT_GT(growth.get<int64_t>(), results - kSlack);
  }
}

// A limit on the address space counts as missing memory: exit code 5.
TEST_F(MappedFilesTest, AFileBeyondTheAddressSpaceIsWantOfMemory) {
  if (RAPT_SANITIZED) GTEST_SKIP() << "sanitizers reserve the whole address space";
  save_zeros("big.npy", kRows);
  save_zeros("row.npy", 1);
  save_safetensors("big.safetensors");
  const std::vector<std::string> before = files();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"convert", "big.npy", "o.npy"},
        {"mask", "file:big.npy"},
        {"attend", "--query", "row.npy", "--key", "big.npy", "--value", "big.npy", "--output",
         "o.npy"},
        {"attend", "--query", "row.npy", "--key", "row.npy", "--value", "row.npy", "--bias",
         "big.safetensors:big", "--output", "o.npy"}}) {
    const Ran ran = rapt(arguments, {.most_memory = kLittle});
    EXPECT_EQ(ran.exit, 5) << ran.err << " signal " << ran.signal;
    EXPECT_TRUE(contains(ran.err, "rapt " + arguments[0] + ": ")) << ran.err;
    EXPECT_TRUE(contains(ran.err, "big.") && contains(ran.err, "cannot be mapped")) << ran.err;
    EXPECT_TRUE(contains(ran.err, "ulimit -v")) << ran.err;
    EXPECT_FALSE(contains(ran.err, "--memory-limit")) << "it is not what refused: " << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_EQ(files(), before);
  }
}

}  // namespace
}  // namespace rapt::cli_test
