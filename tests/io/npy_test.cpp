// Valid .npy files: NumPy's own files are read and written byte for byte, also from strided views.
#include "rapt/io/npy.h"
#include "golden.h"

#include <numeric>

#include "in_memory.h"
#include "scratch_folder.h"

namespace rapt::test {
namespace {

// 0, 1, 2, ... in row-major order, halved for floats, as ramp() in make_golden.py.
template <class T>
Tensor ramp(std::initializer_list<int64_t> shape) {
  Tensor tensor(dtype_of<T>(), shape);
  int64_t i = 0;
  for (T& x : tensor.values<T>()) {
    x = static_cast<T>(std::is_floating_point_v<T> ? static_cast<double>(i) / 2
                                                   : static_cast<double>(i));
    ++i;
  }
  return tensor;
}

template <class T>
void expect_equal(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(to_string(got.dims()), to_string(want.dims()));
  const auto g = got.values<T>(), w = want.values<T>();
  ASSERT_EQ(std::vector<T>(g.begin(), g.end()), std::vector<T>(w.begin(), w.end()));
}

template <class T>
void expect_read_and_written(const std::string& name, const Tensor& want) {
  SCOPED_TRACE(name);
  expect_equal<T>(read_npy(golden(name)), want);
  expect_equal<T>(tensor_in(file_bytes(golden(name))), want);
  const ScratchFolder folder;
  write_npy(folder / name, want, Overwrite::no);
  EXPECT_EQ(file_bytes(folder / name), file_bytes(golden(name)));
  EXPECT_EQ(folder.entries(), 1);
}

TEST(Npy, ReadsAndWritesWhatNumpySaves) {
  expect_read_and_written<float>("f4_2x3.npy", ramp<float>({2, 3}));
  expect_read_and_written<double>("f8_2x3x4.npy", ramp<double>({2, 3, 4}));
  expect_read_and_written<int32_t>("i4_5.npy", ramp<int32_t>({5}));
  expect_read_and_written<uint8_t>("u1_3x2.npy", ramp<uint8_t>({3, 2}));
  expect_read_and_written<float>("f4_empty_0x4.npy", Tensor(DType::f32, {0, 4}));
  expect_read_and_written<float>("f4_9dims.npy", ramp<float>({1, 2, 1, 1, 2, 1, 1, 1, 3}));
  expect_read_and_written<float>("f4_1000000x0.npy", Tensor(DType::f32, {1000000, 0}));
  Tensor scalar(DType::i64, {});
  scalar.values<int64_t>()[0] = -7;
  expect_read_and_written<int64_t>("i8_scalar.npy", scalar);
  Tensor booleans(DType::boolean, {4});
  const bool values[] = {true, false, false, true};
  std::copy(std::begin(values), std::end(values), booleans.values<bool>().begin());
  expect_read_and_written<bool>("b1_4.npy", booleans);
}

TEST(Npy, HalvesAreNumpysFloat16) {
  const Tensor halves = read_npy(golden("f2_5.npy"));
  ASSERT_EQ(halves.dtype(), DType::f16);
  ASSERT_EQ(halves.count(), 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(static_cast<float>(halves.values<Float16>()[i]), 0.5f * static_cast<float>(i));
  }
  const ScratchFolder folder;
  write_npy(folder / "h.npy", halves, Overwrite::no);
  EXPECT_EQ(file_bytes(folder / "h.npy"), file_bytes(golden("f2_5.npy")));
}

TEST(Npy, ReadsOtherOrdersAndVersions) {
  expect_equal<float>(read_npy(golden("fortran_f4_2x3.npy")), ramp<float>({2, 3}));
  expect_equal<double>(read_npy(golden("fortran_big_f8_2x3x4.npy")), ramp<double>({2, 3, 4}));
  expect_equal<float>(read_npy(golden("big_f4_2x3.npy")), ramp<float>({2, 3}));
  expect_equal<int32_t>(read_npy(golden("big_i4_5.npy")), ramp<int32_t>({5}));
  expect_equal<int64_t>(read_npy(golden("big_i8_5.npy")), ramp<int64_t>({5}));
  expect_equal<float>(read_npy(golden("version2_f4_2x3.npy")), ramp<float>({2, 3}));
  expect_equal<float>(read_npy(golden("version3_f4_2x3.npy")), ramp<float>({2, 3}));
}

TEST(Npy, TellsWhatIsInsideBeforeReading) {
  const TensorFile file = open_tensor_file(golden("fortran_big_f8_2x3x4.npy"));
  EXPECT_STREQ(file.format, "npy");
  ASSERT_EQ(file.tensors.size(), 1u);
  const StoredTensor& array = file.tensors[0];
  EXPECT_EQ(array.name, "");
  EXPECT_EQ(array.type, ">f8");
  EXPECT_EQ(array.dtype, DType::f64);
  EXPECT_EQ(array.byte_order, std::endian::big);
  EXPECT_TRUE(array.fortran_order);
  EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(array.offset, 128);
  EXPECT_EQ(array.bytes, 2 * 3 * 4 * 8);
  EXPECT_EQ(file.find(""), &array);
  EXPECT_EQ(file.find("query"), nullptr);
}

TEST(Npy, AcceptsOtherSpellingsOfTheDict) {
  const auto file = [](const std::string& dict, size_t data_bytes) {
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size()) + '\0' + dict +
           std::string(data_bytes, '\0');
  };
  for (const std::string dict :
       {"{'shape':(2,3),'descr':'<f4','fortran_order':False}",
        "  { \"descr\" : \"<f4\" , \"shape\" : ( 2 , 3 , ) , 'fortran_order' : False , } \n\n"}) {
    SCOPED_TRACE(dict);
    const std::string bytes = file(dict, 24);
    EXPECT_EQ(to_string(tensor_in(bytes).dims()), to_string(ramp<float>({2, 3}).dims()));
  }
  // Other writers state a byte order even for single-byte elements.
  const std::string bytes = file("{'descr': '<u1', 'fortran_order': False, 'shape': (2,), }", 2);
  EXPECT_EQ(tensor_in(bytes).dtype(), DType::u8);
}

TEST(Npy, WritesStridedViewsDensely) {
  const Tensor base = ramp<float>({3, 4, 5});
  const auto values = base.values<float>();
  const ScratchFolder folder;
  const std::string path = folder / "view.npy";

  write_npy(path, base.view().transposed(0, 2), Overwrite::no);
  Tensor read = read_npy(path);
  ASSERT_EQ(to_string(read.dims()), "[5, 4, 3]");
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t k = 0; k < 3; ++k) {
        ASSERT_EQ(read.values<float>()[(i * 4 + j) * 3 + k], values[(k * 4 + j) * 5 + i]);
      }
    }
  }

  write_npy(path, base.view().slice(1, 1, 3), Overwrite::yes);
  read = read_npy(path);
  ASSERT_EQ(to_string(read.dims()), "[3, 2, 5]");
  EXPECT_EQ(read.values<float>()[12], values[(1 * 4 + 1) * 5 + 2]);

  write_npy(path, TensorView(values.data() + 59, {60}, {-1}), Overwrite::yes);
  read = read_npy(path);
  EXPECT_EQ(read.values<float>()[0], values[59]);
  EXPECT_EQ(read.values<float>()[59], values[0]);

  write_npy(path, TensorView(values.data(), {2, 5}, {0, 1}), Overwrite::yes);
  read = read_npy(path);
  EXPECT_EQ(read.values<float>()[9], values[4]);
}

// Tests sizes beyond the chunks of reading and writing, which have 2^18 bytes.
TEST(Npy, CrossesChunks) {
  const ScratchFolder folder;
  for (const int64_t columns : {127, 128, 129, 300}) {
    const Tensor base = ramp<double>({256, columns});
    const std::string path = folder / "large.npy";
    write_npy(path, base.view().transposed(), Overwrite::yes);
    const Tensor read = read_npy(path);
    expect_equal<double>(Tensor::copy_of(read.view().transposed()), base);

    // With a Fortran header of the transposed shape, the same bytes give the matrix itself.
    std::string bytes = file_bytes(path);
    const std::string shape = "False, 'shape': (" + std::to_string(columns) + ", 256), }";
    std::string fortran = "True, 'shape': (256, " + std::to_string(columns) + "), }";
    fortran.resize(shape.size(), ' ');
    const size_t at = bytes.find(shape);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, shape.size(), fortran);
    expect_equal<double>(tensor_in(bytes), base);
  }
}

}  // namespace
}  // namespace rapt::test
