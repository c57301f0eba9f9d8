// Malicious, damaged and unreadable .safetensors files: each gives one clear Error.
//
// Sources of the cases: huggingface/safetensors, attacks/README.md (proposals 1 to 5), the tests of
// safetensors/src/tensor.rs, and the findings of its audit by Trail of Bits (duplicates, holes,
// polyglots).
#include <random>

#include "safetensors_bytes.h"
#include "support/sanitizers.h"

namespace rapt::test {
namespace {

template <class... Parts>
void refused(ErrorCode code, const std::string& bytes, const Parts&... parts) {
  SCOPED_TRACE(bytes.substr(0, 200));
  expect_error(
      code, [&] { open_bytes(bytes); }, "evil.safetensors: ", parts...);
}

// A file whose header lists one tensor, followed by four bytes of data.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return safetensors_file("{" + entry("x", dtype, shape, offsets) + "}", "\1\1\1\1");
}

std::string valid() {
  const std::string a = entry("a", "F32", "[1,2]", "[0,8]"), b = entry("b", "U8", "[3]", "[8,11]");
  return safetensors_file("{\"__metadata__\":{\"k\":\"v\"}," + a + "," + b + "}",
                          std::string(11, '\1'));
}

TEST(SafetensorsAttack, LengthsBeyondTheFileOrTheBound) {
  std::string bytes = valid();
  for (const uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 32, uint64_t{1} << 63,
                                ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::memcpy(bytes.data(), &length, 8);
    refused(ErrorCode::format, bytes, "at most 100000000 bytes", std::to_string(length));
    expect_error(
        ErrorCode::format, [&] { open_tensor_file(held("evil", bytes)); }, "at most 100000000");
  }
  for (const uint64_t length : {uint64_t{1000}, uint64_t{100'000'000}}) {
    std::memcpy(bytes.data(), &length, 8);
    refused(ErrorCode::format, bytes, "a header of " + std::to_string(length) + " bytes",
            "cut short");
  }
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{20}}) {
    std::memcpy(bytes.data(), &length, 8);
    refused(ErrorCode::format, bytes);
  }
}

// A short file that declares huge tensors is rejected before any allocation, so no bad_alloc.
TEST(SafetensorsAttack, NothingIsAllocatedForWhatTheFileLacks) {
  refused(ErrorCode::format, one("F32", "[36028797018963968]", "[0,144115188075855872]"),
          "within the 4 bytes behind the header");
  refused(ErrorCode::format, one("F32", "[1073741824]", "[0,4294967296]"), "within the 4 bytes");
  refused(ErrorCode::format, one("F32", "[1073741824]", "[0,4]"), "expected 4294967296 bytes");
}

TEST(SafetensorsAttack, ProductsThatWrap) {
  for (const char* shape :
       {"[4294967296,4294967296]", "[4611686018427387905,4]", "[9223372036854775807]",
        "[1073741824,1073741824,1073741824,1]", "[4611686018427387904,0,4]"})
    refused(ErrorCode::overflow, one("F32", shape, "[0,4]"), "tensor 'x'", "64 bits");
  refused(ErrorCode::overflow, one("F4", "[4611686018427387904]", "[0,4]"), "64 bits");
}

TEST(SafetensorsAttack, NumbersThatFitNoInteger) {
  for (const char* number :
       {"9223372036854775808", "18446744073709551615", "18446744073709551616",
        "99999999999999999999999999999999999999999999999999999999999999999999"}) {
    const std::string text = number;
    refused(ErrorCode::overflow, one("F32", "[" + text + "]", "[0,4]"), "64 bits");
    refused(ErrorCode::overflow, one("F32", "[1]", "[0," + text + "]"), "64 bits");
    refused(ErrorCode::overflow, one("F32", "[1]", "[" + text + ",4]"), "64 bits");
  }
  for (const char* number : {"-1", "-0", "1.0", "1e0", "0.5", "-9223372036854775808", "null",
                             "true", "\"1\"", "[1]", "{}"}) {
    const std::string text = number;
    refused(ErrorCode::format, one("F32", "[" + text + "]", "[0,4]"), "lengths of 0 or more");
    refused(ErrorCode::format, one("F32", "[1]", "[0," + text + "]"), "two data_offsets");
    refused(ErrorCode::format, one("F32", "[1]", "[" + text + ",4]"), "two data_offsets");
  }
  for (const char* number : {"01", "+1", "0x1", "1_0", ".5", "1.", "NaN", "Infinity", "", "1e999"})
    refused(ErrorCode::format, one("F32", "[" + std::string(number) + ",]", "[0,4]"),
            "expected JSON");
  refused(ErrorCode::format, one("F32", "[1" + std::string(400, '0') + "]", "[0,4]"));
}

TEST(SafetensorsAttack, OffsetsOutOfPlace) {
  refused(ErrorCode::format, one("F32", "[1]", "[4,0]"), "that do not fall, got [4, 0)");
  refused(ErrorCode::format, one("F32", "[2]", "[0,8]"), "within the 4 bytes", "[0, 8)");
  refused(ErrorCode::format, one("F32", "[1]", "[4,8]"), "within the 4 bytes", "[4, 8)");
  refused(ErrorCode::format, one("U8", "[3]", "[1,4]"), "got none at [0, 1)");
  refused(ErrorCode::format, one("U8", "[3]", "[0,3]"), "got none at [3, 4)");
  refused(ErrorCode::format, one("U8", "[0]", "[2,2]"), "got none at [0, 2)");
  refused(ErrorCode::format, safetensors_file("{}", "1"), "got none at [0, 1)");
  refused(ErrorCode::format, one("F32", "[1]", "[0]"), "two data_offsets", "got fewer");
  refused(ErrorCode::format, one("F32", "[1]", "[]"), "two data_offsets", "got fewer");
  refused(ErrorCode::format, one("F32", "[1]", "[0,4,4]"), "two data_offsets");
  refused(ErrorCode::format, one("F32", "[1]", "4"), "two data_offsets");
  refused(ErrorCode::format, one("F32", "1", "[0,4]"), "the array of its shape");
}

TEST(SafetensorsAttack, OverlapsAndHoles) {
  const auto pair = [](const char* a, const char* b) {
    return safetensors_file(
        "{" + entry("a", "U8", "[4]", a) + "," + entry("b", "U8", "[4]", b) + "}",
        std::string(8, '\0'));
  };
  ASSERT_NO_THROW(open_bytes(pair("[0,4]", "[4,8]")));
  ASSERT_NO_THROW(open_bytes(pair("[4,8]", "[0,4]")));
  refused(ErrorCode::format, pair("[0,4]", "[0,4]"), "'b' at [0, 4) over 'a' at [0, 4)");
  refused(ErrorCode::format, pair("[0,4]", "[3,7]"), "'b' at [3, 7) over 'a' at [0, 4)");
  refused(ErrorCode::format, pair("[0,4]", "[5,9]"), "within the 8 bytes");
  // Many tensors share the same bytes: loading all of them from this small file would fill the
  // memory.
  std::string json = "{";
  for (int i = 0; i < 100'000; ++i)
    json += (i > 0 ? "," : "") + entry("w" + std::to_string(i), "F32", "[200,200]", "[0,160000]");
  refused(ErrorCode::format, safetensors_file(json + "}", std::string(160'000, '\0')), " over 'w");
}

TEST(SafetensorsAttack, ShapeAndTypeThatDoNotFitTheBytes) {
  refused(ErrorCode::format, one("F32", "[2]", "[0,4]"), "expected 8 bytes for F32 [2]", "[0, 4)");
  refused(ErrorCode::format, one("F64", "[1]", "[0,4]"), "expected 8 bytes");
  refused(ErrorCode::format, one("U8", "[1]", "[0,4]"), "expected 1 bytes");
  refused(ErrorCode::format, one("F32", "[0]", "[0,4]"), "expected 0 bytes");
  refused(ErrorCode::format, one("F64", "[]", "[0,4]"), "expected 8 bytes for F64 []");
  for (const char* length : {"1", "3", "7"})
    refused(ErrorCode::format, one("F4", "[" + std::string(length) + "]", "[0,4]"),
            "fill whole bytes, got F4");
  refused(ErrorCode::format, one("F6_E2M3", "[5]", "[0,4]"), "fill whole bytes");
  ASSERT_NO_THROW(open_bytes(one("F4", "[8]", "[0,4]")));
}

TEST(SafetensorsAttack, UnknownTypes) {
  for (const char* dtype : {"", "f32", "F32 ", "F128", "BF8", "<f4", "float32", "O"})
    refused(ErrorCode::dtype, one(dtype, "[1]", "[0,4]"), "tensor 'x'",
            "a dtype of the format (F32, BF16, I64, ...), got '" + std::string(dtype) + "'");
  for (const char* dtype : {"1", "null", "true", "[\"F32\"]", "{}"})
    refused(ErrorCode::format,
            safetensors_file("{\"x\":{\"dtype\":" + std::string(dtype) +
                                 ",\"shape\":[1],\"data_offsets\":[0,4]}}",
                             "1234"),
            "the name of its dtype");
}

TEST(SafetensorsAttack, NamesThatComeTwice) {
  const std::string a = entry("a", "U8", "[0]", "[0,0]"), b = entry("b", "U8", "[0]", "[0,0]");
  refused(ErrorCode::format, safetensors_file("{" + a + "," + b + "," + a + "}"),
          "tensor 'a' twice");
  // The same name, once written with an escape.
  refused(ErrorCode::format,
          safetensors_file("{" + a + "," + entry("\\u0061", "U8", "[0]", "[0,0]") + "}"),
          "tensor 'a' twice");
  const std::string metadata = "\"__metadata__\":{\"k\":\"v\"}";
  refused(ErrorCode::format, safetensors_file("{" + metadata + "," + a + "," + metadata + "}"),
          "'__metadata__' twice");
  refused(ErrorCode::format, safetensors_file("{\"__metadata__\":{\"k\":\"1\",\"k\":\"1\"}}"),
          "'k' twice");
  for (const char* field : {"\"dtype\":\"U8\"", "\"shape\":[0]", "\"data_offsets\":[0,0]"}) {
    std::string twice = a;
    twice.insert(twice.size() - 1, "," + std::string(field));
    refused(ErrorCode::format, safetensors_file("{" + twice + "}"), "twice", "'a'");
  }
}

TEST(SafetensorsAttack, FieldsThatLackOrAreTooMany) {
  const auto fields = [](const std::string& text) {
    return safetensors_file("{\"x\":{" + text + "}}", "1234");
  };
  refused(ErrorCode::format, fields(""), "got no dtype");
  refused(ErrorCode::format, fields("\"dtype\":\"U8\",\"shape\":[4]"), "got no data_offsets");
  refused(ErrorCode::format, fields("\"dtype\":\"U8\",\"data_offsets\":[0,4]"), "got no shape");
  refused(ErrorCode::format, fields("\"shape\":[4],\"data_offsets\":[0,4]"), "got no dtype");
  refused(ErrorCode::format,
          fields("\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"strides\":[1]"),
          "got 'strides'");
  refused(ErrorCode::format, fields("\"Dtype\":\"U8\""), "got 'Dtype'");
  for (const char* value : {"null", "1", "\"F32\"", "[]", "[\"U8\",[4],[0,4]]", "true", "-1"})
    refused(ErrorCode::format, safetensors_file("{\"x\":" + std::string(value) + "}", "1234"),
            "tensor 'x': expected an object {dtype, shape, data_offsets}");
}

TEST(SafetensorsAttack, MetadataIsTextOnly) {
  for (const char* value : {"null", "1", "1.5", "true", "[]", "{}", "[\"a\"]", "{\"a\":\"b\"}"})
    refused(ErrorCode::format,
            safetensors_file("{\"__metadata__\":{\"k\":" + std::string(value) + "}}"),
            "text for __metadata__ 'k'");
  for (const char* value : {"null", "1", "\"a\"", "[]"})
    refused(ErrorCode::format, safetensors_file("{\"__metadata__\":" + std::string(value) + "}"),
            "the object of __metadata__");
}

TEST(SafetensorsAttack, DeepNestingIsNoRecursion) {
  for (const std::string open : {"[", "{\"a\":", "{\"__metadata__\":", "{\"x\":{\"shape\":["}) {
    std::string json = "{\"a\":";
    for (int i = 0; i < 300'000; ++i) json += open;
    refused(ErrorCode::format, safetensors_file(json), "expected ");
  }
}

TEST(SafetensorsAttack, HeadersThatAreNoJsonObject) {
  const std::string a = entry("a", "U8", "[0]", "[0,0]");
  ASSERT_NO_THROW(open_bytes(safetensors_file("{" + a + "}")));
  const std::string cases[] = {"",
                               " ",
                               "garbage",
                               "null",
                               "[]",
                               "[" + a + "]",
                               " {" + a + "}",
                               "\n{}",
                               "\xef\xbb\xbf{" + a + "}",
                               "{",
                               "}",
                               "{,}",
                               "{" + a,
                               "{" + a + ",}",
                               "{" + a + "}x",
                               "{" + a + "}{}",
                               "{" + a + "}}",
                               "{" + a + "} // text",
                               "{/* text */" + a + "}",
                               "{'a':1}",
                               "{a:1}",
                               "{\"a\"}",
                               "{\"a\":}",
                               "{\"a\":1,}",
                               "{" + a + " " + a + "}",
                               "{" + a + "}" + std::string(1, '\0'),
                               "{" + a + "}" + std::string(3, '\0') + "hidden",
                               std::string("{\0}", 3),
                               "{\"\\ud800\":1}",
                               "{\"\\x61\":1}",
                               "{\"\n\":1}",
                               "{\"\xff\":1}",
                               "{\"\xc0\xaf\":1}",
                               "{\"\xed\xa0\x80\":1}",
                               "{\"\xf4\x90\x80\x80\":1}"};
  for (const std::string& json : cases) refused(ErrorCode::format, safetensors_file(json));
}

TEST(SafetensorsAttack, MoreDimensionsThanATensorHas) {
  const auto shape = [](int rank) {
    std::string text = "[1";
    for (int i = 1; i < rank; ++i) text += ",1";
    return text + "]";
  };
  ASSERT_EQ(open_bytes(one("F32", shape(kMaxRank), "[0,4]")).tensors[0].shape.size(),
            size_t{kMaxRank});
  refused(ErrorCode::shape, one("F32", shape(kMaxRank + 1), "[0,4]"), "at most 32 dimensions");
  refused(ErrorCode::shape, one("U32", shape(100'000), "[0,4]"), "at most 32 dimensions");
}

TEST(SafetensorsAttack, NamesAndNumbersOfTensorsHaveABound) {
  const auto named = [](int64_t length) {
    return safetensors_file(
        "{" + entry(std::string(static_cast<size_t>(length), 'n'), "U8", "[0]", "[0,0]") + "}");
  };
  ASSERT_NO_THROW(open_bytes(named(kMaxSafetensorsName)));
  refused(ErrorCode::format, named(kMaxSafetensorsName + 1), "names of at most 4096 bytes");
  if (RAPT_SANITIZED) return;  // a million entries take half a minute
  const auto repeated = [](std::string json, const std::string& text) {
    for (int64_t i = 0; i < kMaxSafetensorsTensors; ++i) json += text + ",";
    return safetensors_file(json + text + "}}");
  };
  refused(ErrorCode::format, repeated("{\"__metadata__\":{", "\"\":\"\""), "at most 1048576 texts");
  refused(ErrorCode::format, repeated("{", entry("", "U8", "[0]", "[0,0]")),
          "at most 1048576 tensors");
}

TEST(SafetensorsAttack, MessagesAreShortAndPlain) {
  const std::string long_name = "\\u001b]0;owned\\u0007" + std::string(3000, 'a');
  for (const std::string& bytes :
       {safetensors_file("{" + entry(long_name, "F32", "[1]", "[0,8]") + "}", "12345678"),
        safetensors_file("{" + entry("x", long_name, "[1]", "[0,8]") + "}", "12345678"),
        safetensors_file("{\"x\":{\"" + long_name + "\":1}}"),
        safetensors_file("{\"x\":{\"dtype\": " + std::string(5000, 'z') + "}}"),
        safetensors_file("{\"x\":{\"shape\": [0." + std::string(5000, '3') + "]}}"),
        safetensors_file("{\"__metadata__\":{\"" + long_name + "\":1}}")}) {
    try {
      open_safetensors(held("a\nb.safetensors", bytes));
      ADD_FAILURE() << bytes.substr(0, 80);
    } catch (const Error& e) {
      const std::string message = e.what();
      EXPECT_LT(message.size(), 400u) << message;
      for (const char c : message) EXPECT_GE(c, ' ') << message;
    }
  }
}

TEST(SafetensorsAttack, EveryPrefixAndOneByteMore) {
  const ScratchFolder folder;
  const std::string whole = valid();
  ASSERT_EQ(open_bytes(whole).tensors.size(), 2u);
  for (size_t n = 0; n < whole.size(); ++n) {
    SCOPED_TRACE("cut to " + std::to_string(n));
    const std::string cut = whole.substr(0, n);
    refused(ErrorCode::format, cut);
    make_file(folder / "evil.safetensors", cut);
    expect_error(
        ErrorCode::format, [&] { open_tensor_file(folder / "evil.safetensors"); },
        "evil.safetensors: ");
  }
  refused(ErrorCode::format, whole + '\0', "got none at [11, 12)");
}

// Checks that a file is either rejected or covered exactly by the tensors that it lists.
bool opened_rightly(const std::string& bytes) {
  try {
    const TensorFile file = open_bytes(bytes);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    auto end = static_cast<int64_t>(8 + header);
    for (const StoredTensor& tensor : file.tensors) {
      EXPECT_EQ(tensor.offset, end);
      end += tensor.bytes;
      try {
        if (tensor.dtype) load(tensor);
      } catch (const Error& e) {
        EXPECT_EQ(*tensor.dtype, DType::boolean) << e.what();
      }
    }
    EXPECT_EQ(end, std::ssize(bytes));
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(SafetensorsAttack, EveryByteReplacedByEveryOther) {
  const std::string whole = valid();
  int64_t opened = 0, refusals = 0;
  for (size_t at = 0; at < whole.size() - 11; ++at)
    for (int value = 0; value < 256; ++value) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(value);
      SCOPED_TRACE("byte " + std::to_string(at) + " is " + std::to_string(value));
      ++(opened_rightly(bytes) ? opened : refusals);
    }
  EXPECT_GT(opened, 300);  // the changed byte was part of a name or a text
  EXPECT_GT(refusals, 30'000);
}

TEST(SafetensorsAttack, RandomDamage) {
  std::mt19937_64 random(20240607);
  const auto below = [&](uint64_t n) { return random() % n; };
  const std::string start = valid();
  const std::string words[] = {"{",
                               "}",
                               "[",
                               "]",
                               ",",
                               ":",
                               "\"",
                               "\"a\"",
                               "\"b\"",
                               "\"F32\"",
                               "\"U8\"",
                               "\"shape\"",
                               "0",
                               "8",
                               "11",
                               "-1",
                               "1e9",
                               "4294967296",
                               "\\u",
                               "null",
                               "\"F4\"",
                               "\"BOOL\"",
                               " ",
                               "\"dtype\"",
                               "\"data_offsets\"",
                               "\"__metadata__\""};
  int64_t opened = 0, refusals = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string json = start.substr(8, start.size() - 19),
                elements(below(3) == 0 ? below(20) : 11, 1);
    for (uint64_t edits = below(4); edits > 0; --edits) {
      const size_t at = below(json.size() + 1), length = below(8);
      const std::string word = below(4) == 0 ? std::string(1, static_cast<char>(below(256)))
                                             : words[below(std::size(words))];
      if (below(2) == 0)
        json.replace(at, length, word);
      else
        json.insert(at, json.substr(below(json.size() + 1), length * 8));
    }
    ++(opened_rightly(safetensors_file(json, elements)) ? opened : refusals);
  }
  EXPECT_GT(opened, 1000);
  EXPECT_GT(refusals, 10'000);
}

TEST(SafetensorsAttack, BooleansOtherThanZeroAndOne) {
  const TensorFile file = open_bytes(
      safetensors_file("{" + entry("x", "BOOL", "[4]", "[0,4]") + "}", std::string("\1\0\2\1", 4)));
  expect_error(
      ErrorCode::format, [&] { load(file.tensors[0]); }, "evil.safetensors: 'x'",
      "booleans of 0 or 1, got 2");
}

TEST(SafetensorsAttack, AFileThatShrinksBeforeItIsRead) {
  const ScratchFolder folder;
  const std::string path = folder / "shrinks.safetensors";
  make_file(path, valid());
  const auto file = std::make_shared<InputFile>(path);
  std::filesystem::resize_file(path, 20);
  expect_error(
      ErrorCode::io, [&] { open_safetensors(file); }, "became shorter");
}

}  // namespace
}  // namespace rapt::test
