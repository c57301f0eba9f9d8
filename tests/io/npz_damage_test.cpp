// Valid .npz files with bytes removed, changed or moved give an Error or the same arrays.
#include <optional>
#include <random>

#include "golden.h"
#include "in_memory.h"
#include "rapt/io/npz.h"
#include "scratch_folder.h"
#include "zip_builder.h"

namespace rapt::test {
namespace {

// Archives that together have every structure that the reader handles.
std::vector<std::string> small_archives() {
  ZipPart zip64 = stored("z.npy", golden_bytes("b1_4.npy"));
  zip64.local.extra = zip64_extra({zip64.local.bytes, zip64.local.stored_bytes});
  zip64.central.extra = zip64_extra({zip64.central.bytes, zip64.central.stored_bytes});
  zip64.local.bytes = zip64.local.stored_bytes = kIn64From32;
  zip64.central.bytes = zip64.central.stored_bytes = kIn64From32;
  ZipEnd end;
  end.zip64 = true;
  end.entries = kIn64From16;
  end.bytes = end.offset = kIn64From32;
  end.comment = "c";
  return {zip_of({stored("a.npy", golden_bytes("i4_5.npy")),
                  compressed("b.npy", golden_bytes("f4_2x3.npy"))}),
          zip_of({streamed(compressed("a.npy", golden_bytes("i8_scalar.npy")), true, 4)}),
          zip_of({zip64, streamed(compressed("b.npy", golden_bytes("f4_2x3.npy")), true, 8)}, end)};
}

// Names, shapes and bytes of all tensors; nullopt after an Error.
std::optional<std::vector<std::string>> contents(const std::string& zip) {
  try {
    std::vector<std::string> all;
    const TensorFile file = open_npz(in_memory(zip));
    for (const StoredTensor& stored : file.tensors) {
      const Tensor tensor = Tensor::copy_of(load(stored).view());
      all.push_back(stored.name + to_string(tensor.dims()) +
                    std::string(static_cast<const char*>(tensor.data()),
                                static_cast<size_t>(tensor.count() * size_of(tensor.dtype()))));
    }
    return all;
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    EXPECT_LT(std::string(e.what()).size(), 400u) << e.what();
    return std::nullopt;
  }
}

TEST(NpzDamage, EveryPrefixIsRefused) {
  for (const std::string& whole : small_archives()) {
    ASSERT_TRUE(contents(whole));
    for (size_t n = 0; n < whole.size(); ++n) {
      SCOPED_TRACE(n);
      EXPECT_EQ(contents(whole.substr(0, n)), std::nullopt);
    }
  }
}

// A changed byte gives an Error or has no effect on arrays: dates, versions and attributes. It
// never changes a value.
TEST(NpzDamage, EveryByteReplaced) {
  std::mt19937 random(20240607);
  for (const std::string& whole : small_archives()) {
    const auto want = contents(whole);
    ASSERT_TRUE(want);
    int64_t harmless = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      for (const int change : {0xff, 0x01, 0x80, static_cast<int>(random() % 255) + 1}) {
        std::string bytes = whole;
        bytes[i] = static_cast<char>(bytes[i] ^ change);
        const auto got = contents(bytes);
        if (!got) continue;
        SCOPED_TRACE(i);
        ASSERT_EQ(*got, *want);
        ++harmless;
      }
    }
    EXPECT_LT(harmless, 4 * 60 * std::ssize(*want) + 4 * 40);
  }
}

// Random damage gives an Error or tensors, never a crash.
TEST(NpzDamage, RandomDamage) {
  std::mt19937_64 random(20240607);
  const auto below = [&](uint64_t n) { return random() % n; };
  const std::vector<std::string> starts = small_archives();
  int64_t read = 0, refusals = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = starts[below(starts.size())];
    for (uint64_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes.erase(at, 1 + below(8));
          break;
        case 2:  // inserts a copy of a piece: records in wrong places
          bytes.insert(at, bytes.substr(below(bytes.size()), below(64)));
          break;
        default:
          bytes.replace(at, std::min<size_t>(4, bytes.size() - at), std::string(4, '\xff'));
          break;
      }
    }
    ++(contents(bytes) ? read : refusals);
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refusals, 10000);
}

}  // namespace
}  // namespace rapt::test
