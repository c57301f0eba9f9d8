// Valid .npz files: all variants that writers produce, and what rapt writes.
#include "rapt/io/npz.h"
#include "golden.h"

#include <cstring>

#include "in_memory.h"
#include "scratch_folder.h"
#include "zip_builder.h"

namespace rapt::test {
namespace {

TensorFile opened(const std::string& zip, NpyV2 v2 = NpyV2::refuse) {
  return open_tensor_file(in_memory(zip, "memory.npz"), v2);
}

std::string written(std::span<const NamedTensor> tensors, Compression compression) {
  std::string bytes;
  write_npz(
      [&](const void* data, int64_t count) {
        bytes.append(static_cast<const char*>(data), static_cast<size_t>(count));
      },
      tensors, compression);
  return bytes;
}

template <class T>
std::vector<T> values_of(const StoredTensor& stored) {
  Tensor tensor = Tensor::copy_of(load(stored).view());
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

const std::vector<float> kHalves = {0, 0.5f, 1, 1.5f, 2, 2.5f};  // values of f4_2x3.npy
const std::vector<int32_t> kCount = {0, 1, 2, 3, 4};             // values of i4_5.npy

void expect_two_arrays(const std::string& zip) {
  const TensorFile file = opened(zip);
  EXPECT_STREQ(file.format, "npz");
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "halves");
  EXPECT_EQ(file.tensors[1].name, "count");
  ASSERT_NE(file.find("halves"), nullptr);
  EXPECT_EQ(file.find("halves")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.find("halves.npy"), nullptr);
  EXPECT_EQ(values_of<float>(*file.find("halves")), kHalves);
  EXPECT_EQ(values_of<int32_t>(*file.find("count")), kCount);
}

TEST(Npz, ReadsStoredAndDeflatedMembers) {
  const std::string halves = golden_bytes("f4_2x3.npy"), count = golden_bytes("i4_5.npy");
  expect_two_arrays(zip_of({stored("halves.npy", halves), stored("count.npy", count)}));
  expect_two_arrays(zip_of({compressed("halves.npy", halves), compressed("count.npy", count)}));
  expect_two_arrays(zip_of({stored("halves.npy", halves), compressed("count.npy", count)}));
}

TEST(Npz, ReadsMembersThatWereStreamed) {
  const std::string halves = golden_bytes("f4_2x3.npy"), count = golden_bytes("i4_5.npy");
  for (const bool signature : {false, true}) {
    for (const int size_bytes : {4, 8}) {
      SCOPED_TRACE(std::to_string(signature) + " " + std::to_string(size_bytes));
      const auto both = [&](const ZipPart& part) { return streamed(part, signature, size_bytes); };
      expect_two_arrays(
          zip_of({both(stored("halves.npy", halves)), both(stored("count.npy", count))}));
      expect_two_arrays(
          zip_of({both(compressed("halves.npy", halves)), both(compressed("count.npy", count))}));
    }
  }
  // Like Python's zipfile: the header refers to a ZIP64 field for the sizes, and that field is 0.
  ZipPart part = streamed(compressed("halves.npy", halves), true, 8);
  part.local.stored_bytes = part.local.bytes = kIn64From32;
  part.local.extra = zip64_extra({0, 0});
  expect_two_arrays(zip_of({part, stored("count.npy", count)}));
}

TEST(Npz, ReadsZip64) {
  const std::string halves = golden_bytes("f4_2x3.npy");
  ZipEnd end;
  end.zip64 = true;
  end.entries = kIn64From16;
  end.bytes = end.offset = kIn64From32;
  const ZipPart count = stored("count.npy", golden_bytes("i4_5.npy"));
  for (const bool compress : {false, true}) {
    // numpy.savez writes the ZIP64 field into local headers of any size.
    ZipPart part = zip_part("halves.npy", halves, compress);
    part.local.extra = zip64_extra({part.local.bytes, part.local.stored_bytes});
    part.local.bytes = part.local.stored_bytes = kIn64From32;
    expect_two_arrays(zip_of({part, count}));
    expect_two_arrays(zip_of({part, count}, end));
    // The directory uses ZIP64 too.
    part.central.extra = zip64_extra({part.central.bytes, part.central.stored_bytes, 0});
    part.central.bytes = part.central.stored_bytes = kIn64From32;
    part.header_at = kIn64From32;
    expect_two_arrays(zip_of({part, count}));
    expect_two_arrays(zip_of({part, count}, end));
  }
  // A ZIP64 record although all plain fields would fit; Python writes one from 2 GiB on. The reader
  // detects it because the directory does not end where the last record begins.
  ZipEnd needless;
  needless.zip64 = true;
  expect_two_arrays(zip_of({stored("halves.npy", halves), count}, needless));
}

TEST(Npz, CommentsAreAllowed) {
  for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{65535}}) {
    ZipEnd end;
    end.comment = std::string(bytes, 'P');
    expect_two_arrays(zip_of({stored("halves.npy", golden_bytes("f4_2x3.npy")),
                              stored("count.npy", golden_bytes("i4_5.npy"))},
                             end));
  }
}

TEST(Npz, OtherExtraFieldsAreSkipped) {
  ZipPart part = stored("halves.npy", golden_bytes("f4_2x3.npy"));
  part.local.extra = std::string("UT\x05\x00\x01....", 9);
  part.central.extra = std::string("ux\x00\x00UT\x01\x00x", 9);
  expect_two_arrays(zip_of({part, stored("count.npy", golden_bytes("i4_5.npy"))}));
}

// Tensors have the order of the directory, wherever their data lie.
TEST(Npz, TheDirectoryMayHaveAnotherOrder) {
  const std::string halves = golden_bytes("f4_2x3.npy"), count = golden_bytes("i4_5.npy");
  const std::string straight = zip_of({stored("halves.npy", halves), stored("count.npy", count)});
  const size_t directory = straight.find("PK\x01\x02");
  const size_t first = kCentralBytes + std::strlen("halves.npy"),
               second = kCentralBytes + std::strlen("count.npy");
  std::string turned = straight;
  turned.replace(directory, first + second,
                 straight.substr(directory + first, second) + straight.substr(directory, first));
  const TensorFile file = opened(turned);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[0].name, "count");
  EXPECT_EQ(values_of<float>(file.tensors[1]), kHalves);
}

TEST(Npz, AnArchiveWithoutMembersIsEmpty) {
  EXPECT_TRUE(opened(zip_of({})).tensors.empty());
  EXPECT_TRUE(opened(written({}, Compression::stored)).tensors.empty());
}

TEST(Npz, NamesLoseOneEnding) {
  const std::string array = golden_bytes("i4_5.npy");
  const TensorFile file = opened(zip_of({stored("a.npy.npy", array), stored("b", array),
                                         stored("x/y.npy", array), stored("\xC3\xA4.npy", array)}));
  ASSERT_EQ(file.tensors.size(), 4u);
  EXPECT_EQ(file.tensors[0].name, "a.npy");
  EXPECT_EQ(file.tensors[1].name, "b");
  EXPECT_EQ(file.tensors[2].name, "x/y");
  EXPECT_EQ(file.tensors[3].name, "\xC3\xA4");
}

TEST(Npz, TypesThatAreNotReadAreListedAndRefusedByName) {
  const TensorFile file =
      opened(zip_of({stored("text.npy", golden_bytes("refused_text.npy")),
                     compressed("short.npy", golden_bytes("refused_i2.npy")),
                     stored("pickle.npy", golden_bytes("refused_object.npy")),
                     compressed("fields.npy", golden_bytes("refused_fields.npy")),
                     stored("v2.npy", golden_bytes("refused_v2.npy")),
                     stored("count.npy", golden_bytes("i4_5.npy"))}));
  ASSERT_EQ(file.tensors.size(), 6u);
  const struct {
    const char *type, *says;
  } expected[] = {{"<U2", "element type '<U2' is not supported"},
                  {"<i2", "element type '<i2' is not supported"},
                  {"|O", "is a pickle, which rapt never reads"},
                  {"[('a', '<f4'), ('b', '<i4')]", "structured dtype"},
                  {"|V2", "only where it is asked for"}};
  for (size_t i = 0; i < std::size(expected); ++i) {
    const StoredTensor& tensor = file.tensors[i];
    EXPECT_EQ(tensor.type, expected[i].type);
    EXPECT_FALSE(tensor.dtype.has_value());
    EXPECT_EQ(memory_of(tensor), 0);
    expect_error(
        ErrorCode::dtype, [&] { load(tensor); },
        "memory.npz: '" + tensor.name + "': ", expected[i].says);
  }
  EXPECT_EQ(file.tensors[1].shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(file.tensors[1].bytes, 4);
  EXPECT_EQ(values_of<int32_t>(file.tensors[5]), kCount);
}

TEST(Npz, TwoBytesWithoutATypeAreBfloat16WhenAsked) {
  const std::string zip = zip_of({compressed("a.npy", golden_bytes("refused_v2.npy"))});
  const TensorFile file = opened(zip, NpyV2::bf16);
  EXPECT_EQ(file.tensors[0].dtype, DType::bf16);
  EXPECT_EQ(load(file.tensors[0]).view().dtype, DType::bf16);
}

TEST(Npz, OtherOrdersAreReadToo) {
  const TensorFile file =
      opened(zip_of({compressed("f.npy", golden_bytes("fortran_big_f8_2x3x4.npy")),
                     stored("s.npy", golden_bytes("fortran_big_f8_2x3x4.npy"))}));
  for (const StoredTensor& tensor : file.tensors) {
    EXPECT_EQ(memory_of(tensor), 2 * 3 * 4 * 8);
    const auto values = values_of<double>(tensor);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 0.5 * static_cast<double>(i));
  }
}

TEST(Npz, WhatIsWrittenIsReadBack) {
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  const std::vector<uint8_t> bytes(100000, 7);
  const int64_t scalar = -7;
  const std::vector<NamedTensor> tensors = {
      {"query", TensorView(numbers.data(), {2, 3})},
      {"transposed", TensorView(numbers.data(), {3, 2}, {1, 3})},
      {"bytes.npy", TensorView(bytes.data(), {1000, 100})},
      {"scalar", TensorView(&scalar, {})},
      {"empty", TensorView(numbers.data(), {0, 4})},
      {"\xE2\x88\x87 key", TensorView(numbers.data(), {6})},
  };
  for (const Compression compression : {Compression::stored, Compression::deflated}) {
    const bool compress = compression == Compression::deflated;
    const std::string zip = written(tensors, compression);
    EXPECT_EQ(zip, written(tensors, compression)) << "the same tensors, the same bytes";
    EXPECT_EQ(zip.size() < bytes.size(), compress);
    const TensorFile file = opened(zip);
    ASSERT_EQ(file.tensors.size(), tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const StoredTensor& stored = file.tensors[i];
      SCOPED_TRACE(stored.name);
      EXPECT_EQ(stored.name, tensors[i].name);
      EXPECT_EQ(stored.deflated, compress);
      const LoadedTensor loaded = load(stored);
      EXPECT_EQ(loaded.mapped(), !compress);
      EXPECT_EQ(memory_of(stored), loaded.mapped() ? 0 : stored.bytes);
      const Tensor got = Tensor::copy_of(loaded.view()), want = Tensor::copy_of(tensors[i].view);
      ASSERT_EQ(to_string(got.dims()), to_string(want.dims()));
      ASSERT_EQ(got.dtype(), want.dtype());
      if (got.count() == 0) continue;  // nothing to compare, and the pointers may be null
      EXPECT_EQ(std::memcmp(got.data(), want.data(),
                            static_cast<size_t>(got.count() * size_of(got.dtype()))),
                0);
    }
  }
}

TEST(Npz, StoredElementsBeginAtMultiplesOf64) {
  const std::vector<double> numbers(100);
  for (size_t length = 1; length < 80; ++length) {
    const std::string a(length, 'a'), b(length, 'b');
    const std::vector<NamedTensor> tensors = {{a, TensorView(numbers.data(), {1})},
                                              {b, TensorView(numbers.data(), {99})}};
    const TensorFile file = opened(written(tensors, Compression::stored));
    for (const StoredTensor& tensor : file.tensors) ASSERT_EQ(tensor.offset % 64, 0) << length;
  }
}

TEST(Npz, MapsStoredMembersOfAFile) {
  const ScratchFolder folder;
  const std::vector<float> numbers = {1, 2, 3};
  const std::vector<NamedTensor> tensors = {{"a", TensorView(numbers.data(), {3})}};
  make_file(folder / "a.npz", written(tensors, Compression::stored));
  const auto file = std::make_shared<const InputFile>(folder / "a.npz");
  const LoadedTensor loaded = load(open_tensor_file(file).tensors[0]);
  EXPECT_TRUE(loaded.mapped());
  EXPECT_STREQ(mapped_file_at(loaded.view().data), (folder / "a.npz").c_str());
}

TEST(Npz, TensorsThatCannotBeWritten) {
  const std::vector<float> numbers(4);
  const TensorView good(numbers.data(), {4});
  const auto refused = [&](ErrorCode code, const std::vector<NamedTensor>& tensors,
                           const char* says) {
    int64_t calls = 0;
    expect_error(
        code, [&] { write_npz([&](const void*, int64_t) { ++calls; }, tensors); }, says);
    EXPECT_EQ(calls, 0) << "nothing may have been written";
  };
  refused(ErrorCode::argument, {{"a", good}, {"", good}}, "a name for each tensor");
  refused(ErrorCode::argument, {{"a", good}, {"b", good}, {"a", good}}, "got 'a' twice");
  refused(ErrorCode::argument, {{std::string("a\0b", 3), good}}, "without a zero byte");
  refused(ErrorCode::argument, {{"\xff", good}}, "UTF-8");
  refused(ErrorCode::argument, {{std::string(65532, 'a'), good}}, "at most 65531 bytes");
  refused(ErrorCode::argument, {{"a", good}, {"b", TensorView()}}, "'b': expected a tensor");
  const Tensor bf16(DType::bf16, {3});
  refused(ErrorCode::dtype, {{"a", good}, {"b", bf16.view()}}, "bf16");
  const std::vector<NamedTensor> longest = {{std::string(65531, 'a'), good}};
  EXPECT_EQ(opened(written(longest, Compression::stored)).tensors[0].name, longest[0].name);
}

TEST(Npz, MoreThan65535TensorsNeedZip64) {
  const uint8_t byte = 5;
  for (const size_t count : {size_t{65534}, size_t{65535}, size_t{65536}}) {
    std::vector<NamedTensor> tensors;
    for (size_t i = 0; i < count; ++i)
      tensors.push_back({std::to_string(i), TensorView(&byte, {1})});
    const std::string zip = written(tensors, Compression::stored);
    EXPECT_EQ(zip.find("PK\x06\x06") != std::string::npos, count >= 65535);
    const TensorFile file = opened(zip);
    ASSERT_EQ(file.tensors.size(), count);
    EXPECT_EQ(values_of<uint8_t>(file.tensors.back()), std::vector<uint8_t>{5});
  }
}

}  // namespace
}  // namespace rapt::test
