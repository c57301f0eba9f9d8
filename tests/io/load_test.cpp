// load() refers to elements in place where the machine can read them there; else it copies them.
#include <cstring>

#include "golden.h"
#include "in_memory.h"
#include "rapt/io/npy.h"
#include "scratch_folder.h"

namespace rapt::test {
namespace {

TEST(Load, AlignedNativeElementsAreLookedAtWhereTheFileIsMapped) {
  const auto file = std::make_shared<const InputFile>(golden("f4_2x3.npy"));
  const StoredTensor stored = open_tensor_file(file).tensors[0];
  EXPECT_EQ(memory_of(stored), 0);
  const LoadedTensor loaded = load(stored);
  EXPECT_TRUE(loaded.mapped());
  EXPECT_TRUE(loaded.view().read_only);
  EXPECT_EQ(loaded.view().data, file->map().data() + stored.offset);
  EXPECT_TRUE(loaded.view().contiguous());
  EXPECT_EQ(static_cast<const float*>(loaded.view().data)[5], 2.5f);
}

TEST(Load, AViewKeepsItsFileMapped) {
  LoadedTensor loaded;
  EXPECT_FALSE(loaded.view().defined());
  {
    const TensorFile file = open_tensor_file(golden("f4_2x3.npy"));
    loaded = load(file.tensors[0]);
  }
  EXPECT_EQ(static_cast<const float*>(loaded.view().data)[5], 2.5f);
}

TEST(Load, FortranOrderIsAStridedViewOfTheMap) {
  const TensorFile file = open_tensor_file(golden("fortran_f4_2x3.npy"));
  EXPECT_EQ(memory_of(file.tensors[0]), 0);
  const LoadedTensor loaded = load(file.tensors[0]);
  EXPECT_TRUE(loaded.mapped());
  const TensorView& view = loaded.view();
  EXPECT_EQ(to_string(view.dims()), "[2, 3]");
  EXPECT_EQ(view.strides[0], 1);
  EXPECT_EQ(view.strides[1], 2);
  EXPECT_EQ(static_cast<const float*>(view.data)[1], 1.5f);  // row 1, column 0
}

TEST(Load, TheOtherByteOrderIsCopied) {
  const TensorFile file = open_tensor_file(golden("fortran_big_f8_2x3x4.npy"));
  EXPECT_EQ(memory_of(file.tensors[0]), 2 * 3 * 4 * 8);
  const LoadedTensor loaded = load(file.tensors[0]);
  EXPECT_FALSE(loaded.mapped());
  EXPECT_EQ(loaded.view().strides[0], 1);
  EXPECT_EQ(static_cast<const double*>(loaded.view().data)[1], 6.0);  // [1, 0, 0]
}

// A byte order for single-byte elements has no effect.
TEST(Load, BytesHaveNoOrder) {
  const TensorFile file = open_npy(in_memory(npy_file(npy_dict("'>u1'", "(3,)"), 3)));
  EXPECT_EQ(memory_of(file.tensors[0]), 0);
  EXPECT_TRUE(load(file.tensors[0]).mapped());
}

TEST(Load, ElementsAtOddAddressesAreCopied) {
  const std::string dict = npy_dict("'<f4'", "(2,)");
  for (size_t blanks = 0; blanks < 4; ++blanks) {
    std::string bytes = npy_file(dict + std::string(blanks, ' '), 8);
    const float values[] = {1.5f, -2.0f};
    std::memcpy(bytes.data() + bytes.size() - sizeof values, values, sizeof values);
    const TensorFile file = open_npy(in_memory(bytes));
    const bool aligned = file.tensors[0].offset % 4 == 0;
    EXPECT_EQ(memory_of(file.tensors[0]), aligned ? 0 : 8);
    const LoadedTensor loaded = load(file.tensors[0]);
    EXPECT_EQ(loaded.mapped(), aligned);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(loaded.view().data) % 4, 0u);
    EXPECT_EQ(static_cast<const float*>(loaded.view().data)[1], -2.0f);
  }
}

TEST(Load, EmptyTensorsNeedNoMemory) {
  for (const char* shape : {"(0,)", "(0, 4)", "(4, 0)", "(3, 0, 1000000)"}) {
    for (const char* order : {"False", "True"}) {
      const TensorFile file = open_npy(in_memory(npy_file(npy_dict("'|u1'", shape, order))));
      EXPECT_EQ(memory_of(file.tensors[0]), 0);
      const LoadedTensor loaded = load(file.tensors[0]);
      EXPECT_TRUE(loaded.view().empty());
      EXPECT_EQ(loaded.view().data, nullptr);
    }
  }
}

TEST(Load, BooleansAreCheckedAlsoWhereTheyAreMapped) {
  const ScratchFolder folder;
  std::string bytes = file_bytes(golden("b1_4.npy"));
  make_file(folder / "b.npy", bytes);
  EXPECT_TRUE(load(open_tensor_file(folder / "b.npy").tensors[0]).mapped());
  bytes.back() = 2;
  make_file(folder / "b.npy", bytes);
  const TensorFile file = open_tensor_file(folder / "b.npy");
  expect_error(
      ErrorCode::format, [&] { load(file.tensors[0]); }, "b.npy", "booleans of 0 or 1, got 2");
}

TEST(Load, TwoBytesWithoutATypeAreBfloat16OnlyWhenAsked) {
  for (const char* descr : {"'<V2'", "'>V2'", "'|V2'"}) {
    SCOPED_TRACE(descr);
    std::string bytes = npy_file(npy_dict(descr, "(1,)"), 2);
    const bool big = descr[1] == '>';
    bytes.replace(bytes.size() - 2, 2, big ? "\x3f\xc0" : "\xc0\x3f");  // 1.5
    expect_error(
        ErrorCode::dtype, [&] { tensor_in(bytes); }, "bfloat16", "only where it is asked for");
    Tensor tensor = tensor_in(bytes, "v2.npy", NpyV2::bf16);
    ASSERT_EQ(tensor.dtype(), DType::bf16);
    EXPECT_EQ(static_cast<float>(tensor.values<BFloat16>()[0]), 1.5f);
  }
  for (const char* descr : {"'=V2'", "'V2'", "'<V4'", "'<V22'"}) {
    const std::string bytes = npy_file(npy_dict(descr, "(1,)"), 2);
    expect_error(
        ErrorCode::dtype, [&] { tensor_in(bytes, "v2.npy", NpyV2::bf16); }, "element type");
  }
}

TEST(Load, Bfloat16IsWrittenOnlyWhenAsked) {
  Tensor tensor(DType::bf16, {3});
  for (BFloat16& x : tensor.values<BFloat16>()) x = BFloat16::from(2.0f);
  std::string bytes;
  const auto write = [&](const void* data, int64_t count) {
    bytes.append(static_cast<const char*>(data), static_cast<size_t>(count));
  };
  expect_error(
      ErrorCode::dtype, [&] { write_npy(write, tensor); }, "bf16", ".safetensors");
  EXPECT_EQ(bytes, "");
  write_npy(write, tensor, NpyV2::bf16);
  EXPECT_NE(bytes.find("'descr': '<V2'"), std::string::npos);
  Tensor back = tensor_in(bytes, "v2.npy", NpyV2::bf16);
  EXPECT_EQ(static_cast<float>(back.values<BFloat16>()[2]), 2.0f);
}

}  // namespace
}  // namespace rapt::test
