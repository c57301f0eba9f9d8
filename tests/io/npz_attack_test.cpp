// Malicious, damaged and unreadable .npz files: each gives one clear Error before any allocation of
// the sizes that it declares.
//
// Sources of the cases: cnpy #106 (header length beyond the member, 77 bytes), D. Fifield's "A
// better zip bomb" (overlapping members, 2019), directory traversal by names ("zip slip").
#include "golden.h"
#include "in_memory.h"
#include "rapt/io/npz.h"
#include "scratch_folder.h"
#include "zip_builder.h"

namespace rapt::test {
namespace {

TensorFile opened_npz(const std::string& zip) { return open_npz(in_memory(zip, "evil.npz")); }

// open_npz rejects the archive.
template <class... Parts>
void refused(const std::string& zip, const Parts&... parts) {
  expect_error(
      ErrorCode::format, [&] { opened_npz(zip); }, "evil.npz: ", parts...);
}

// open_npz accepts the archive, but load() rejects its only tensor.
template <class... Parts>
void not_loaded(const std::string& zip, const Parts&... parts) {
  const TensorFile file = opened_npz(zip);
  ASSERT_EQ(file.tensors.size(), 1u);
  expect_error(
      ErrorCode::format, [&] { load(file.tensors[0]); }, "evil.npz: 'a': ", parts...,
      "the archive is damaged");
}

const std::string kArray = golden_bytes("f4_2x3.npy");

TEST(RegNpzOverread, SeventySevenBytes) {
  // A deflated member of ten bytes that declares a header of 65,535 bytes.
  const std::string ten("\x93NUMPY\x01\x00\xff\xff", 10);
  ZipPart part = stored("arr_00.npy", ten);
  part.data = std::string("\x01\x0a\x00\xf5\xff", 5) + ten;  // a stored block of deflate
  part.local.method = part.central.method = kMethodDeflated;
  part.local.stored_bytes = part.central.stored_bytes = 15;
  const std::string whole = zip_of({part});
  refused(whole, "'arr_00.npy': the file ends after 10 bytes", "its header of 65535 bytes");
  // The 77 bytes that naive readers accept: local header, member and last record, without
  // directory.
  std::string file = whole.substr(0, 30 + 10 + 15) + whole.substr(whole.size() - 22);
  ASSERT_EQ(file.size(), 77u);
  refused(file, "does not end where its last record begins");
  refused(zip_of({stored("a.npy", ten)}), "the file ends after 10 bytes");
  refused(zip_of({stored("a.npy", ten + "\x01\x02")}), "the file ends after 12 bytes",
          "its header of 65535 bytes");
}

TEST(RegNpzBomb, MembersThatOverlap) {
  // The same member entered twice, as in the first kind of zip bomb, which reuses one kernel of
  // data.
  const ZipPart part = compressed("a.npy", kArray);
  ZipPart again = part;
  again.central.name = "b.npy";
  again.header_at = 0;
  refused(zip_of({part, again}), "'", "header");
  ZipPart twice = part;
  twice.header_at = 0;
  twice.central.name = twice.local.name = "b.npy";
  refused(zip_of({part, twice}), "members overlap");
  // The second kind of bomb: a member contains the header of the next one as its data.
  const ZipPart inner = stored("b.npy", kArray);
  std::string quoted_inner = zip_of({inner});
  quoted_inner.resize(30 + 5 + kArray.size());
  ZipPart outer = stored("a.npy", quoted_inner);
  ZipPart hidden = inner;
  hidden.header_at = 30 + 5;
  refused(zip_of({outer, hidden}), "'b.npy'", "members overlap");
}

TEST(RegNpzBomb, GapsHideNothing) {
  const std::string zip = zip_of({stored("a.npy", kArray), stored("b.npy", kArray)});
  // Bytes before the first member, as in self-extracting archives.
  refused("MZ.." + zip, "does not end where its last record begins");
  ZipPart second = stored("b.npy", kArray);
  ZipPart first = stored("a.npy", kArray);
  first.descriptor = "gap";
  refused(zip_of({first, second}), "'b.npy'", "there is a gap before it");
  second.descriptor = "gap";
  first.descriptor = "";
  refused(zip_of({first, second}), "the directory of the archive at byte");
}

TEST(RegNpzBomb, RatiosThatDeflateCannotReach) {
  ZipPart part = compressed("a.npy", kArray);
  part.local.bytes = part.central.bytes = 1033 * part.local.stored_bytes;
  refused(zip_of({part}), "deflate reaches at most 1032 to 1");
  for (const uint64_t bytes : {uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    part.local.bytes = part.central.bytes = kIn64From32;
    part.local.extra = zip64_extra({bytes, part.local.stored_bytes});
    part.central.extra = zip64_extra({bytes});
    refused(zip_of({part}), std::to_string(bytes) + " bytes", "deflate reaches at most 1032 to 1");
  }
}

// No machine has 2^60 bytes, so allocating before the check would throw std::bad_alloc.
TEST(RegNpzBomb, ShapesBeyondTheMember) {
  for (const bool compress : {false, true}) {
    const std::string array = npy_file(npy_dict("'<f4'", "(288230376151711744,)"), 12);
    refused(zip_of({zip_part("a.npy", array, compress)}), "'a.npy'",
            "expected 1152921504606846976 bytes of data");
    expect_error(
        ErrorCode::overflow,
        [&] {
          opened_npz(zip_of({zip_part(
              "a.npy", npy_file(npy_dict("'<f4'", "(4294967296, 4294967296)")), compress)}));
        },
        "'a.npy'", "64 bits");
  }
}

// A member of a few hundred bytes can inflate to a type text of 64 KiB, and an archive can hold
// many such members.
TEST(RegNpzBomb, LongTypesAreNotKept) {
  const std::string fields = "[" + std::string(60000, ' ') + "('a', '<f4')]";
  const std::string zip = zip_of({compressed("a.npy", npy_file(npy_dict(fields, "(1,)"), 4))});
  ASSERT_LT(zip.size(), 400u);
  const TensorFile file = opened_npz(zip);
  EXPECT_LE(file.tensors[0].type.capacity(), 256u);
  EXPECT_FALSE(file.tensors[0].dtype.has_value());
}

TEST(NpzAttack, MoreOrLessIsInflatedThanDeclared) {
  // The .npy header and the directory agree, but deflate gives another number of bytes.
  const std::string longer = kArray + "more", shorter = kArray.substr(0, kArray.size() - 4);
  for (const auto& [content, says] :
       {std::pair{longer, "inflated, got more"}, {shorter, "bytes inflated, got"}}) {
    ZipPart part = compressed("a.npy", content);
    part.local.bytes = part.central.bytes = static_cast<uint32_t>(kArray.size());
    not_loaded(zip_of({part}), says);
  }
  ZipPart part = compressed("a.npy", kArray);
  part.data += "??";
  part.local.stored_bytes = part.central.stored_bytes += 2;
  not_loaded(zip_of({part}), "end 2 bytes early");
  part = compressed("a.npy", kArray);
  part.data.resize(part.data.size() - 2);
  part.local.stored_bytes = part.central.stored_bytes -= 2;
  not_loaded(zip_of({part}), "do not end within");
  // A member without any bytes.
  part = stored("a.npy", "");
  part.local.method = part.central.method = kMethodDeflated;
  refused(zip_of({part}), "empty file");
  part.local.bytes = part.central.bytes = 100;
  refused(zip_of({part}), "deflate reaches at most");
  refused(zip_of({stored("a.npy", "")}), "'a.npy': expected a .npy file, got an empty file");
}

TEST(NpzAttack, DeflatedDataThatAreWrong) {
  ZipPart part = compressed("a.npy", kArray);
  part.data[0] = '\x07';  // block type 3, which does not exist
  refused(zip_of({part}), "its deflated data are wrong (invalid block type)");
}

TEST(NpzAttack, WrongCrc) {
  for (const bool compress : {false, true}) {
    ZipPart part = zip_part("a.npy", kArray, compress);
    part.local.crc = part.central.crc ^= 1;
    not_loaded(zip_of({part}), "expected CRC-32 ", ", got ");
    // Also for an array that load() copies, and for one changed byte of the data.
    part = zip_part("a.npy", golden_bytes("big_f4_2x3.npy"), compress);
    part.local.crc = part.central.crc ^= 0x80000000;
    not_loaded(zip_of({part}), "expected CRC-32 ");
  }
  std::string zip = zip_of({stored("a.npy", kArray)});
  zip[30 + 5 + kArray.size() - 1] ^= 1;
  not_loaded(zip, "expected CRC-32 ");
}

TEST(NpzAttack, HeadersThatDifferFromTheDirectory) {
  const ZipPart good = compressed("a.npy", kArray);
  const auto lie = [&](auto change, const char* what) {
    ZipPart part = good;
    change(part.local);
    SCOPED_TRACE(what);
    refused(zip_of({part}), "directory and header of the member say different ", what);
  };
  lie([](ZipHeader& h) { h.name = "b.npy"; }, "name");
  lie([](ZipHeader& h) { h.name = "A.npy"; }, "name");
  lie([](ZipHeader& h) { h.flags = kFlagUtf8; }, "flags");
  lie([](ZipHeader& h) { h.method = kMethodStored; }, "method");
  lie([](ZipHeader& h) { ++h.crc; }, "CRC-32");
  lie([](ZipHeader& h) { h.crc = 0; }, "CRC-32");
  lie([](ZipHeader& h) { ++h.bytes; }, "sizes");
  lie([](ZipHeader& h) { h.bytes = 0; }, "sizes");
  lie([](ZipHeader& h) { --h.stored_bytes; }, "sizes");
  lie([](ZipHeader& h) { h.stored_bytes = kIn64From32; }, "sizes");
  lie(
      [](ZipHeader& h) {
        h.extra = zip64_extra({h.bytes, h.stored_bytes + 1});
        h.bytes = h.stored_bytes = kIn64From32;
      },
      "sizes");
}

TEST(NpzAttack, DescriptorsThatDifferFromTheDirectory) {
  for (const bool signature : {false, true}) {
    for (const int size_bytes : {4, 8}) {
      const ZipPart good = streamed(compressed("a.npy", kArray), signature, size_bytes);
      ASSERT_NO_THROW(opened_npz(zip_of({good})));
      for (size_t i = 0; i < good.descriptor.size(); ++i) {
        ZipPart part = good;
        part.descriptor[i] ^= 0x40;
        refused(zip_of({part}));
      }
      ZipPart none = good;
      none.descriptor = "";
      refused(zip_of({none}), "does not repeat CRC-32 and sizes");
    }
  }
}

TEST(NpzAttack, Zip64FieldsThatLie) {
  const ZipPart good = stored("a.npy", kArray);
  const auto lie = [&](auto change, const char* says) {
    ZipPart part = good;
    change(part);
    SCOPED_TRACE(says);
    refused(zip_of({part}), says);
  };
  const char *lacks = "in a ZIP64 field, which lacks it", *differs = "say different sizes";
  const char *two = "expected two sizes in the ZIP64 field", *more = "more values than it should";
  lie([](ZipPart& p) { p.central.bytes = kIn64From32; }, lacks);
  lie([](ZipPart& p) { p.central.stored_bytes = kIn64From32; }, lacks);
  lie([](ZipPart& p) { p.header_at = kIn64From32; }, lacks);
  lie([](ZipPart& p) { p.central.extra = zip64_extra({1}); }, more);
  lie(
      [](ZipPart& p) {
        p.central.extra = zip64_extra({p.central.bytes, 7});
        p.central.bytes = kIn64From32;
      },
      more);
  lie(
      [](ZipPart& p) {
        p.central.extra = zip64_extra({p.central.bytes + 1});
        p.central.bytes = kIn64From32;
      },
      "is stored, but said to have");
  lie(
      [](ZipPart& p) {
        p.central.extra = zip64_extra({uint64_t{1} << 62, uint64_t{1} << 62});
        p.central.bytes = p.central.stored_bytes = kIn64From32;
      },
      "do not fit before the directory");
  for (const uint64_t at : {uint64_t{1} << 62, ~uint64_t{0}}) {
    lie(
        [at](ZipPart& p) {
          p.central.extra = zip64_extra({at});
          p.header_at = kIn64From32;
        },
        "do not fit before the directory");
  }
  lie([](ZipPart& p) { p.central.extra = zip64_extra({}); }, "expected one ZIP64 field");
  lie([](ZipPart& p) { p.local.extra = zip64_extra({}); }, "expected one ZIP64 field");
  lie([](ZipPart& p) { p.local.extra = zip64_extra({1}); }, two);
  lie([](ZipPart& p) { p.local.extra = zip64_extra({1, 2, 3}); }, two);
  lie(
      [](ZipPart& p) {
        p.local.extra = zip64_extra({0, 0});
        p.local.bytes = p.local.stored_bytes = kIn64From32;
      },
      differs);
  lie(
      [](ZipPart& p) {
        p.local.extra = zip64_extra({1, 2}) + zip64_extra({1, 2});
      },
      "expected one ZIP64 field");
  for (const char* extra : {"U", "UT", "UT\x01", "UT\x05", "UT\x01xUT\xff"}) {
    lie([&](ZipPart& p) { p.local.extra = extra; }, "extra fields do not end where they should");
    lie([&](ZipPart& p) { p.central.extra = extra; }, "extra fields do not end where they should");
  }
}

TEST(NpzAttack, LastRecordsThatLie) {
  const std::vector<ZipPart> parts = {stored("a.npy", kArray), stored("b.npy", kArray)};
  const auto lie = [&](auto change, const char* says, bool zip64 = false) {
    ZipEnd end;
    if (zip64) {
      end.zip64 = true;
      end.entries = kIn64From16;
      end.bytes = end.offset = kIn64From32;
      ASSERT_NO_THROW(opened_npz(zip_of(parts, end)));
    }
    change(end);
    SCOPED_TRACE(says);
    refused(zip_of(parts, end), says);
  };
  const char *place = "does not end where its last record begins", *several = "several parts";
  lie([](ZipEnd& e) { e.offset = 0; }, place);
  lie([](ZipEnd& e) { e.offset = kIn64From32; }, place);
  lie([](ZipEnd& e) { e.bytes = 1; }, place);
  lie([](ZipEnd& e) { e.bytes = e.offset = kIn64From32; }, place);
  lie([](ZipEnd& e) { e.entries = 1; }, "expected 1 members in the directory");
  lie([](ZipEnd& e) { e.entries = 0; }, "expected 0 members in the directory");
  lie([](ZipEnd& e) { e.entries = 3; }, "expected at most 2 members");
  lie([](ZipEnd& e) { e.entries = kIn64From16; }, "expected at most 2 members");
  lie([](ZipEnd& e) { e.disk = 1; }, several);
  lie([](ZipEnd& e) { e.directory_disk = 1; }, several);
  lie([](ZipEnd& e) { e.entries_here = 1; }, several);
  const char* zip64_place = "does not end where its ZIP64 record begins";
  for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    lie([&](ZipEnd& e) { e.bytes_64 = value; }, zip64_place, true);
    lie([&](ZipEnd& e) { e.offset_64 = value; }, zip64_place, true);
    lie([&](ZipEnd& e) { e.record_at = value; }, "expected the ZIP64 record", true);
    lie([&](ZipEnd& e) { e.record_bytes = value; }, "expected the ZIP64 record", true);
    if (value > 0)
      lie([&](ZipEnd& e) { e.entries_64 = value; }, "expected at most 2 members", true);
  }
  lie([](ZipEnd& e) { e.entries_64 = 1; }, "expected 1 members in the directory", true);
  lie([](ZipEnd& e) { e.disk_64 = 1; }, several, true);
  lie([](ZipEnd& e) { e.disks_64 = 2; }, several, true);
  lie([](ZipEnd& e) { e.offset = 5; }, "records at the end of the archive differ", true);
  lie([](ZipEnd& e) { e.entries = 5; }, "records at the end of the archive differ", true);
}

TEST(NpzAttack, NothingMayFollowTheArchive) {
  const std::string zip = zip_of({stored("a.npy", kArray)});
  refused(zip + '\0', "something follows the archive");
  refused(zip + zip.substr(0, 10), "something follows the archive");
  refused(zip + std::string(70000, '\0'), "something follows the archive");
  // A second archive after the first: its offsets do not count from the start of the file.
  refused(zip + zip);
  ZipEnd end;
  end.comment = "comment";
  const std::string commented = zip_of({stored("a.npy", kArray)}, end);
  refused(commented + "x");
  refused(commented.substr(0, commented.size() - 1));
}

TEST(NpzAttack, NamesAreNeverPaths) {
  const ScratchFolder folder;
  make_file(folder / "victim", "old");
  std::vector<ZipPart> parts;
  for (const std::string name : {"../victim.npy", "/etc/passwd.npy", "..\\victim.npy", "C:\\x.npy",
                                 "a/../../victim", "./victim.npy", "~/victim.npy"})
    parts.push_back(compressed(name, kArray));
  make_file(folder / "evil.npz", zip_of(parts));
  const TensorFile file = open_tensor_file(folder / "evil.npz");
  ASSERT_EQ(file.tensors.size(), parts.size());
  EXPECT_EQ(file.tensors[0].name, "../victim");
  for (const StoredTensor& tensor : file.tensors) EXPECT_EQ(load(tensor).view().count(), 6);
  EXPECT_EQ(file_bytes(folder / "victim"), "old");
  EXPECT_EQ(folder.entries(), 2);
}

TEST(NpzAttack, NamesThatAreRefused) {
  const char* says = "expected a name of a member in UTF-8, not empty and without a zero byte";
  for (const std::string& name :
       {std::string(), std::string("a\0.npy", 6), std::string("\xff.npy"), std::string("\xC3"),
        std::string("\xED\xA0\x80"), std::string("\xC0\xAF")}) {
    refused(zip_of({stored(name, kArray)}), says);
  }
  // The error is one line, whatever the name contains.
  refused(zip_of({stored("\x1b[2J\r\n.npy", "no array")}), "'\\x1b[2J\\x0d\\x0a.npy'");
}

TEST(NpzAttack, DuplicateNames) {
  refused(zip_of({stored("a.npy", kArray), stored("b.npy", kArray), compressed("a.npy", kArray)}),
          "'a.npy': two members have this name");
  refused(zip_of({stored("a.npy", kArray), stored("a", kArray)}), "'a': two members",
          "'.npy' behind it");
}

TEST(NpzAttack, MembersThatAreNoArrays) {
  refused(zip_of({stored("a.npy", kArray), stored("README.txt", "Hello")}),
          "'README.txt': expected a .npy file");
  refused(zip_of({stored("folder/", "")}), "'folder/': expected a .npy file, got an empty file");
  refused(zip_of({stored("model/data.pkl", "\x80\x02}q"), stored("model/data/0", "0000")}),
          "PyTorch checkpoint", "pickle", "safetensors.torch.save_file");
  refused(zip_of({stored("data.pkl", "\x80\x02}q")}), "PyTorch checkpoint");
}

TEST(NpzAttack, EncryptedAndOtherMethodsAreRefusedByName) {
  const auto with = [](uint16_t flags, uint16_t method) {
    ZipPart part = stored("a.npy", kArray);
    part.local.flags = part.central.flags = flags;
    part.local.method = part.central.method = method;
    return zip_of({part});
  };
  refused(with(1, kMethodStored), "'a.npy': is encrypted", "without a password");
  refused(with(1, 99), "is encrypted");
  refused(with(0, 9), "method 9 (Deflate64)", "numpy.savez_compressed");
  refused(with(0, 12), "method 12 (bzip2)");
  refused(with(0, 14), "method 14 (LZMA)");
  refused(with(0, 93), "method 93 (Zstandard)");
  refused(with(0, 77), "method 77;");
  refused(with(1 << 5, kMethodStored), "has flags 32");
  refused(with(1 << 6, kMethodStored), "has flags 64");
  refused(with(1 << 13, kMethodStored), "has flags 8192");
}

TEST(NpzAttack, FilesThatAreNoArchives) {
  const char* says =
      "expected the record that ends a .zip archive at the end of the file, got none";
  refused("", says);
  refused("PK", says);
  refused(std::string(100000, '\0'), says);
  expect_error(
      ErrorCode::format, [] { open_tensor_file(in_memory("PK\x03\x04 and so on", "evil")); },
      "evil: ", says);
}

}  // namespace
}  // namespace rapt::test
