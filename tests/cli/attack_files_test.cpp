// Malicious files: the program prints one line that names the file, exits with 3, and allocates no
// memory of a size that a file only declares. tests/io has more cases of each kind.
#include <algorithm>
#include <fstream>

#include "cli/support/run_rapt.h"
#include "io/in_memory.h"
#include "io/safetensors_bytes.h"
#include "io/zip_builder.h"
#include "support/sanitizers.h"

namespace rapt::cli_test {
namespace {

using test::entry;
using test::npy_dict;
using test::npy_file;
using test::safetensors_file;
using test::stored;
using test::zip_of;

constexpr bool kSanitized = RAPT_SANITIZED;

// The program alone maps about 30 MiB. Sanitizers reserve the whole address space.
constexpr int64_t kAddressSpace = kSanitized ? -1 : int64_t{256} << 20;

class AttackFilesTest : public RaptTest {
 protected:
  // All commands read files in the same way; info reads the whole file.
  void expect_refused(const std::string& name, const std::string& says,
                      std::vector<std::string> arguments = {}) const {
    SCOPED_TRACE(name + ": " + says);
    const std::vector<std::string> before = files();
    if (arguments.empty()) arguments = {"info", name};
    const Ran ran = rapt(arguments, {.most_memory = kAddressSpace});
    EXPECT_EQ(ran.exit, 3) << ran.err << " signal " << ran.signal;
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(ran.err.starts_with("rapt " + arguments[0] + ": ") && contains(ran.err, name) &&
                contains(ran.err, says))
        << ran.err;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    EXPECT_LT(ran.err.size(), 500u);
    EXPECT_EQ(files(), before);
  }
  void refused(const std::string& name, const std::string& bytes, const std::string& says) const {
    write(name, bytes);
    expect_refused(name, says);
  }
  void expect_exit(const std::vector<std::string>& arguments, int exit,
                   const std::string& says) const {
    const Ran ran = rapt(arguments, {.most_memory = kAddressSpace});
    EXPECT_EQ(ran.exit, exit) << ran.err << " signal " << ran.signal;
    EXPECT_TRUE(contains(ran.err, says)) << ran.err;
  }
};

const std::string kArray = npy_file(npy_dict("'<f4'", "(1,)"), 4);

std::string header_of_one(const std::string& shape, const std::string& offsets) {
  return safetensors_file("{" + entry("x", "F32", shape, offsets) + "}", "\1\1\1\1");
}

TEST_F(AttackFilesTest, NpyFilesThatLie) {
  refused("twelve.npy", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), "4294967295 bytes");
  refused("large.npy", npy_file(npy_dict("'<f4'", "(1073741824,)"), 4), "4294967296 bytes");
  refused("wraps.npy", npy_file(npy_dict("'<f4'", "(4294967296, 4294967296)")), "64 bits");
  refused("wraps_to_4.npy", npy_file(npy_dict("'<f4'", "(4611686018427387905,)"), 4), "64 bits");
  refused("number.npy", npy_file(npy_dict("'<f4'", "(18446744073709551617,)"), 4), "64 bits");
  refused("deep.npy", npy_file(std::string(60000, '(')), "malformed .npy header");
}

TEST_F(AttackFilesTest, NpzFilesThatLie) {
  // cnpy #106: 77 bytes with a member that declares a header of 65,535 bytes.
  test::ZipPart part =
      stored("arr_00.npy", std::string("\x01\x0a\x00\xf5\xff\x93NUMPY\x01\x00\xff\xff", 15));
  part.local.method = part.central.method = kMethodDeflated;
  part.local.bytes = part.central.bytes = 10;
  const std::string whole = zip_of({part});
  const std::string cut = whole.substr(0, 55) + whole.substr(whole.size() - 22);
  ASSERT_EQ(cut.size(), 77u);
  refused("seventy_seven.npz", cut, "does not end where its last record begins");
  refused("overread.npz", whole, "its header of 65535 bytes");

  test::ZipPart twice = stored("a.npy", kArray);
  twice.header_at = 0;
  twice.central.name = twice.local.name = "b.npy";
  refused("overlap.npz", zip_of({stored("a.npy", kArray), twice}), "members overlap");
  refused("duplicate.npz", zip_of({stored("a.npy", kArray), stored("a.npy", kArray)}),
          "two members have this name");
  test::ZipPart ratio = test::compressed("a.npy", kArray);
  ratio.local.bytes = ratio.central.bytes = 0xFFFFFFF0;
  refused("ratio.npz", zip_of({ratio}), "deflate reaches at most 1032 to 1");
  test::ZipPart outside = stored("a.npy", kArray);
  outside.header_at = 0xFFFFFF00;
  refused("outside.npz", zip_of({outside}), "do not fit before the directory");
  refused("wraps.npz",
          zip_of({stored("a.npy", npy_file(npy_dict("'<f4'", "(4611686018427387905,)"), 4))}),
          "64 bits");
}

// 64 KiB that hold 64 MiB of zeros. The sizes it declares are true, so the memory limit decides.
TEST_F(AttackFilesTest, ABombThatSaysWhatItIsNeedsABudget) {
  const std::string array = npy_file(npy_dict("'<f4'", "(262144, 64)"), size_t{64} << 20);
  write("bomb.npz", zip_of({test::compressed("a.npy", array)}));
  ASSERT_LT(read("bomb.npz").size(), size_t{1} << 17);
  const Ran ran = rapt({"attend", "--query", "bomb.npz:a", "--key", "bomb.npz:a", "--value",
                        "bomb.npz:a", "--memory-limit", "16M"},
                       {.most_memory = kAddressSpace});
  EXPECT_EQ(ran.exit, 5) << ran.err << " signal " << ran.signal;
  EXPECT_TRUE(contains(ran.err, "needs 64.0 MiB, limit 16.0 MiB")) << ran.err;
}

TEST_F(AttackFilesTest, SafetensorsFilesThatLie) {
  refused("length.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{", 9),
          "at most 100000000 bytes");
  refused("header.safetensors", std::string("\x00\xe1\xf5\x05\0\0\0\0{", 9), "cut short");
  refused("outside.safetensors", header_of_one("[1073741824]", "[0,4294967296]"),
          "within the 4 bytes behind the header");
  refused("negative.safetensors", header_of_one("[1]", "[-4,0]"), "data_offsets of 0 or more");
  refused("falling.safetensors", header_of_one("[1]", "[4,0]"), "data_offsets that do not fall");
  refused("hole.safetensors", header_of_one("[0]", "[4,4]"), "tensors that cover all 4 bytes");
  refused("wraps.safetensors", header_of_one("[4611686018427387905]", "[0,4]"), "64 bits");
  const std::string x = entry("x", "U8", "[4]", "[0,4]"), y = entry("y", "U8", "[4]", "[0,4]");
  refused("overlap.safetensors", safetensors_file("{" + x + "," + y + "}", "\1\1\1\1"),
          "tensors side by side");
  refused("duplicate.safetensors", safetensors_file("{" + x + "," + x + "}", "\1\1\1\1"),
          "'x' twice");
  refused("deep.safetensors", safetensors_file("{\"x\":" + std::string(1'000'000, '[')),
          "malformed header");
}

TEST_F(AttackFilesTest, IndicesThatLie) {
  const auto map = [](const std::string& entries) { return "{\"weight_map\":{" + entries + "}}"; };
  refused("m.index.json", map("\"a\":\"../a.safetensors\""), "a file in the same folder");
  refused("m.index.json", map("\"a\":\"/etc/passwd\""), "a file in the same folder");
  refused("m.index.json", map("\"a\":\"m.index.json\""), "expected a header");
  write("a.safetensors", header_of_one("[1]", "[0,4]"));
  const std::string x = "\"x\":\"a.safetensors\"";
  refused("m.index.json", map(x + "," + x), "'x' twice");
  refused("m.index.json", "{\"metadata\":" + std::string(1'000'000, '['), "got an array");
}

// Numbers as text are checked as strictly. An array of a few bytes cannot become endless lines.
TEST_F(AttackFilesTest, NumbersAsText) {
  refused("deep.json", std::string(1'000'000, '['), "at most 32 dimensions");
  write("rows.npy", npy_file(npy_dict("'<f4'", "(1000000000000000000, 0)")));
  expect_refused("1000000000000000000", "lines without a number", {"convert", "rows.npy", "o.csv"});
  expect_refused("1000000000000000000", "lines without a number",
                 {"convert", "rows.npy", "o.json"});
}

TEST_F(AttackFilesTest, FilesCutAtEveryByte) {
  write("s.safetensors", header_of_one("[1]", "[0,4]"));
  const std::pair<std::string, std::string> whole[] = {
      {"cut.npy", kArray},
      {"cut.npz", zip_of({stored("a.npy", kArray)})},
      {"deflated.npz", zip_of({test::compressed("a.npy", kArray)})},
      {"cut.safetensors", header_of_one("[1]", "[0,4]")},
      {"m.safetensors.index.json", "{\"weight_map\":{\"x\":\"s.safetensors\"}}"}};
  const size_t step = kSanitized ? 31 : 1;  // tests/io cuts at every byte under sanitizers too
  for (const auto& [name, bytes] : whole) {
    write(name, bytes);
    ASSERT_EQ(rapt({"info", name}).exit, 0);
    for (size_t n = 0; n < bytes.size() && !HasFailure(); n += step) {
      SCOPED_TRACE(n);
      refused(name, bytes.substr(0, n), "");
    }
  }
}

// A sparse file of 64 GiB, declared as the directory of an archive with a billion members.
TEST_F(AttackFilesTest, AFileWithHolesTakesNoMemory) {
  constexpr int64_t kDirectory = int64_t{64} << 30;
  std::string end;
  put_u32(end, kZip64EndSignature);
  put_u64(end, kZip64EndBytes - 12);
  put_u32(end, 0);  // versions
  put_u32(end, 0);  // disks
  put_u32(end, 0);
  put_u64(end, kDirectory / kCentralBytes);
  put_u64(end, kDirectory / kCentralBytes);
  put_u64(end, kDirectory);
  put_u64(end, 0);  // where the directory begins
  put_u32(end, kZip64LocatorSignature);
  put_u32(end, 0);
  put_u64(end, kDirectory);
  put_u32(end, 1);
  put_u32(end, kEndSignature);
  put_u32(end, 0);
  put_u32(end, 0xFFFFFFFF);
  put_u32(end, 0xFFFFFFFF);
  put_u32(end, 0xFFFFFFFF);
  put_u16(end, 0);
  write("holes.npz", "PK\x03\x04");
  std::error_code error;
  std::filesystem::resize_file(path("holes.npz"), kDirectory, error);
  if (error) GTEST_SKIP() << "no file of 64 GiB with holes here: " << error.message();
  std::ofstream(path("holes.npz"), std::ios::binary | std::ios::app) << end;
  expect_refused("holes.npz", "members in the directory of the archive, got 0");
}

// Devices that never end are read up to the memory limit.
TEST_F(AttackFilesTest, FilesWithoutAnEnd) {
  const std::string needs = "needs 32.0 MiB, limit 16.0 MiB";
  expect_exit({"info", "/dev/zero", "--memory-limit", "16M"}, 5, needs);
  expect_exit({"attend", "--text", "@/dev/zero", "--memory-limit", "16M"}, 5, needs);
  expect_exit({"bench", "--compare", "/dev/zero", "--memory-limit", "16M"}, 5, needs);
  expect_exit({"attend", "--text", "@."}, 4, "got a folder");
  expect_exit({"bench", "--compare", "."}, 4, "got a folder");
}

TEST_F(AttackFilesTest, OlderResultsThatAreDeep) {
  const std::string deep(1'000'000, '[');
  for (const std::string& text :
       {deep + std::string(1'000'000, ']'),
        "{\"schema\":\"rapt.bench/"
        "1\",\"cpu\":\"\",\"problems\":[{\"descriptor\":\"q1k1d1\",\"time\":"
        "{\"median_seconds\":1},\"threads\":" +
            deep + std::string(1'000'000, ']') + "}]}"}) {
    write("old.json", text);
    expect_exit({"bench", "--compare", "old.json"}, 3, "nested too deep");
  }
}

// Names in messages cannot control a terminal: control characters of 7 and of 8 bits, invalid UTF-8
// and marks that change the text direction are escaped.
TEST_F(AttackFilesTest, NamesInMessages) {
  const std::string name =
      "\x1b]0;\x07\n\xc2\x9b"
      "31m\xff\xe2\x80\xae"
      "gnp\u00e9.npy";
  const std::string shown = "\\x1b]0;\\x07\\x0a\\xc2\\x9b31m\\xff\\xe2\\x80\\xaegnp\u00e9.npy";
  expect_exit({"info", name}, 4, "'" + shown + "'");
  write(name, "no array");
  expect_exit({"info", name}, 3, "rapt info: " + shown + ": expected a .npy");
  expect_exit({name}, 3, "rapt info: " + shown);
  expect_exit({"--" + name}, 2, shown);
  write(name, kArray);
  const Ran json = rapt({"info", name, "--json"});
  EXPECT_EQ(json.exit, 0) << json.err;
  EXPECT_FALSE(contains(json.out, "\x1b") || contains(json.out, "\xff")) << json.out;
}

}  // namespace
}  // namespace rapt::cli_test
