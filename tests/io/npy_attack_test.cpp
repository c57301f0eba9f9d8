// Malicious, damaged and unreadable .npy files: each gives one clear Error before any allocation.
//
// Sources of the cases: libnpy #44 and MLX #3365 (allocation, wrapped product), StableHLO PR #2963
// and OpenVINO PR #6159 (uncaught conversions, underflows), cnpy #85.
#include <fcntl.h>
#include <sys/stat.h>

#include <random>

#include "golden.h"
#include "in_memory.h"
#include "rapt/io/npy.h"
#include "scratch_folder.h"

namespace rapt::test {
namespace {

template <class... Parts>
void refused(ErrorCode code, const std::string& bytes, const Parts&... parts) {
  SCOPED_TRACE(bytes.substr(0, 120));
  expect_error(
      code, [&] { tensor_in(bytes, "evil.npy"); }, "evil.npy: ", parts...);
}

TEST(RegNpyAllocBomb, HeaderThatAsksForGigabytes) {
  const std::string bytes("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
  refused(ErrorCode::format, bytes, "at most 65536 bytes", "4294967295 bytes");
}

// No machine has 2^60 bytes, so allocating before the check would throw std::bad_alloc.
TEST(RegNpyAllocBomb, ShapeBeyondTheFile) {
  refused(ErrorCode::format, npy_file(npy_dict("'<f4'", "(288230376151711744,)"), 12),
          "expected 1152921504606846976 bytes of data for f32 [288230376151711744], got 12 bytes");
  refused(ErrorCode::format, npy_file(npy_dict("'<f4'", "(1073741824,)"), 4), "4294967296 bytes");
}

TEST(RegNpyAllocBomb, ProductThatWraps) {
  refused(ErrorCode::overflow, npy_file(npy_dict("'<f4'", "(4294967296, 4294967296)")), "64 bits");
  refused(ErrorCode::overflow, npy_file(npy_dict("'<f8'", "(1152921504606846976,)")), "64 bits");
  refused(ErrorCode::overflow, npy_file(npy_dict("'<f4'", "(4611686018427387905, 4)"), 16),
          "64 bits");
  // An empty array whose other lengths are absurd; NumPy rejects it too.
  refused(ErrorCode::overflow, npy_file(npy_dict("'<f4'", "(4611686018427387904, 0, 4)")),
          "64 bits");
}

TEST(RegNpyHeaderAbort, NumbersThatFitNoInteger) {
  for (const char* shape : {"(9223372036854775808,)", "(18446744073709551617,)",
                            "(99999999999999999999999999999999999999999999999999999999,)"}) {
    refused(ErrorCode::overflow, npy_file(npy_dict("'<f4'", shape)), "does not fit into 64 bits");
  }
  for (const char* shape : {"(-1,)",   "(+1,)",  "(1.0,)", "(1e3,)",  "(0x10,)", "(1_0,)", "(07,)",
                            "(True,)", "('1',)", "(,)",    "(1,,)",   "(1 2)",   "(1",     "(1,",
                            "1",       "[1]",    "(1)",    "((1,),)", "(1;)",    "None",   ""}) {
    refused(ErrorCode::format, npy_file(npy_dict("'<f4'", shape), 4),
            "malformed .npy header, byte ");
  }
}

TEST(RegNpyHeaderAbort, HeadersThatAreNoDict) {
  const std::string ok = npy_dict("'<f4'", "(1,)");
  ASSERT_EQ(tensor_in(npy_file(ok, 4)).count(), 1);
  const std::string cases[] = {
      "",
      " ",
      "garbage",
      "{",
      "}",
      "{}",
      "{,}",
      "{'descr'}",
      "{'descr':}",
      "{'descr': '<f4'",
      "{'descr': '<f4}",
      "{'descr: '<f4'}",
      "{'descr",
      "{descr: '<f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'shape': (1,)}",
      "{'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
      "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': false, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': Falsey, 'shape': (1,)}",
      "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': None, 'fortran_order': False, 'shape': (1,)}",
      ok + "x",
      ok + ok,
      ok + "; import os",
      ok + std::string(1, '\0'),
  };
  for (const std::string& text : cases) {
    refused(ErrorCode::format, npy_file(text, 4), "malformed .npy header, byte ");
  }
}

TEST(NpyAttack, DeepNestingIsNoRecursion) {
  refused(ErrorCode::format, npy_file(std::string(60000, '{')), "malformed");
  refused(ErrorCode::format, npy_file(npy_dict("'<f4'", std::string(60000, '('))), "malformed");
}

TEST(NpyAttack, MoreDimensionsThanATensorHas) {
  std::string shape = "(";
  for (int i = 0; i < kMaxRank; ++i) shape += "1, ";
  EXPECT_EQ(tensor_in(npy_file(npy_dict("'<f4'", shape + ")"), 4)).rank(), kMaxRank);
  refused(ErrorCode::shape, npy_file(npy_dict("'<f4'", shape + "1)"), 4), "at most 32 dimensions");
}

TEST(NpyAttack, TypesAreRefusedByName) {
  const struct {
    const char* name;
    const char* says;
  } cases[] = {{"refused_i2.npy", "'<i2' is not supported"},
               {"refused_c8.npy", "'<c8' is not supported"},
               {"refused_text.npy", "'<U2' is not supported"},
               {"refused_object.npy", "'|O' (Python objects) is a pickle"},
               {"refused_fields.npy", "structured dtype"}};
  for (const auto& c : cases) {
    expect_error(
        ErrorCode::dtype, [&] { read_npy(golden(c.name)); }, c.name, c.says,
        "rapt reads float32, float64, float16, int32, int64, uint8 and bool");
  }
  expect_error(
      ErrorCode::dtype, [&] { read_npy(golden("refused_v2.npy")); }, "refused_v2.npy",
      "'|V2' is 2 bytes without a type", "bfloat16", "only where it is asked for");
  for (const char* descr : {"''", "'<'", "'f4'", "'=f4'", "'|f4'", "'<f44'", "'<f4 '", "'<F4'",
                            "'=u1'", "'<f16'", "'<V2'", "'\x1b[31m'"}) {
    refused(ErrorCode::dtype, npy_file(npy_dict(descr, "(1,)"), 4), "element type '");
  }
}

TEST(NpyAttack, MessagesAreShortAndPlain) {
  const std::string bytes =
      npy_file(npy_dict("'\x1b]0;owned\x07\r\n" + std::string(5000, 'a') + "'", "()"));
  try {
    tensor_in(bytes, "a\nb.npy");
    FAIL();
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_LT(message.size(), 300u);
    for (const char c : message) EXPECT_GE(c, ' ');
  }
}

TEST(NpyAttack, EveryPrefixAndOneByteMore) {
  for (const char* name : {"f4_2x3.npy", "version2_f4_2x3.npy", "fortran_big_f8_2x3x4.npy",
                           "i8_scalar.npy", "b1_4.npy"}) {
    const ScratchFolder folder;
    const std::string whole = file_bytes(golden(name));
    ASSERT_NO_THROW(tensor_in(whole));
    for (size_t n = 0; n < whole.size(); ++n) {
      SCOPED_TRACE(std::string(name) + " cut to " + std::to_string(n));
      const std::string cut = whole.substr(0, n);
      refused(ErrorCode::format, cut);
      make_file(folder / "evil.npy", cut);
      expect_error(
          ErrorCode::format, [&] { read_npy(folder / "evil.npy"); }, "evil.npy");
      expect_error(
          ErrorCode::format, [&] { open_tensor_file(folder / "evil.npy"); }, "evil.npy");
    }
    refused(ErrorCode::format, whole + '\0', "something follows the array");
  }
}

TEST(NpyAttack, StartsThatAreNotNpy) {
  refused(ErrorCode::format, "", "empty file");
  refused(ErrorCode::format, "PK\x03\x04 and so on", "begins with 'PK\\x03\\x04");
  refused(ErrorCode::format, "\x94NUMPY\x01", "expected a .npy file");
  const std::string ok = npy_file(npy_dict("'<f4'", "(1,)"), 4);
  for (const auto& [major, minor] : {std::pair{0, 0}, {4, 0}, {255, 0}, {1, 1}, {2, 255}}) {
    std::string other = ok;
    other[6] = static_cast<char>(major);
    other[7] = static_cast<char>(minor);
    refused(ErrorCode::format, other, "version 1.0, 2.0 or 3.0",
            "got " + std::to_string(major) + "." + std::to_string(minor));
  }
  std::string longer = ok;
  longer[9] = '\x7f';
  refused(ErrorCode::format, longer, "its header of ");
}

TEST(NpyAttack, BooleansOtherThanZeroAndOne) {
  std::string bytes = file_bytes(golden("b1_4.npy"));
  bytes.back() = 2;
  refused(ErrorCode::format, bytes, "booleans of 0 or 1, got 2");
}

// Random damage gives an Error or a tensor of the size that the file holds, never a crash.
TEST(NpyAttack, RandomDamage) {
  std::mt19937_64 random(20240607);
  const auto below = [&](uint64_t n) { return random() % n; };
  const std::string starts[] = {
      file_bytes(golden("f4_2x3.npy")), file_bytes(golden("fortran_big_f8_2x3x4.npy")),
      file_bytes(golden("version3_f4_2x3.npy")), file_bytes(golden("refused_fields.npy"))};
  const std::string alphabet = "{}()[],:'\"<>|=f48biuO0123456789- \n\\\0TrueFals";
  int64_t read = 0, refusals = 0;
  for (int round = 0; round < 40000; ++round) {
    std::string bytes = starts[below(std::size(starts))];
    for (uint64_t edits = 1 + below(4); edits > 0; --edits) {
      const size_t at =
          below(below(2) == 0 ? bytes.size() : 80);  // the first 80 bytes hold most of the dict
      switch (below(4)) {
        case 0:
          bytes[at] = alphabet[below(alphabet.size())];
          break;
        case 1:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 2:
          bytes.erase(at, 1 + below(3));
          break;
        default:
          bytes.insert(at, 1, alphabet[below(alphabet.size())]);
          break;
      }
    }
    try {
      const TensorFile file = open_npy(in_memory(bytes));
      ASSERT_EQ(file.tensors[0].offset + file.tensors[0].bytes, std::ssize(bytes));
      load(file.tensors[0]);
      ++read;
    } catch (const Error&) {
      ++refusals;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refusals, 20000);
}

TEST(NpyAttack, PathsThatAreNoFiles) {
  const ScratchFolder folder;
  expect_error(
      ErrorCode::io, [&] { read_npy(folder / "none.npy"); }, "none.npy",
      "No such file or directory");
  expect_error(
      ErrorCode::io, [&] { read_npy(folder.path()); }, "got a folder");
  expect_error(
      ErrorCode::io, [&] { read_npy(""); }, "empty");
  expect_error(
      ErrorCode::io, [&] { read_npy(std::string("a\0b", 3)); }, "zero byte");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_error(
      ErrorCode::io, [&] { read_npy(folder / "pipe"); }, "got a pipe or a device");
  expect_error(
      ErrorCode::io, [&] { read_npy("/dev/zero"); }, "got a pipe or a device");
  expect_error(
      ErrorCode::io, [&] { read_npy("/dev/null/x.npy"); }, "Not a directory");
}

TEST(NpyAttack, UnreadableFile) {
  const ScratchFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::copy_file(golden("f4_2x3.npy"), folder / "secret.npy");
  std::filesystem::permissions(folder / "secret.npy", std::filesystem::perms(0));
  const AsOrdinaryUser user;
  expect_error(
      ErrorCode::io, [&] { read_npy(folder / "secret.npy"); }, "secret.npy", "Permission denied");
}

TEST(NpyAttack, TensorsThatCannotBeWritten) {
  const ScratchFolder folder;
  const std::string path = folder / "out.npy";
  expect_error(
      ErrorCode::argument, [&] { write_npy(path, TensorView(), Overwrite::no); }, "out.npy",
      "got none");
  expect_error(
      ErrorCode::argument,
      [&] { write_npy(path, TensorView(static_cast<float*>(nullptr), {3}), Overwrite::no); },
      "out.npy", "null pointer");
  expect_error(
      ErrorCode::dtype, [&] { write_npy(path, Tensor(DType::bf16, {3}), Overwrite::no); }, "bf16");
  EXPECT_EQ(folder.entries(), 0);
}

}  // namespace
}  // namespace rapt::test
