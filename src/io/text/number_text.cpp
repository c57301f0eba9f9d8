// The common parts of CSV and JSON: the files, the list of numbers, and the text of a number.
#include "rapt/io/number_text.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "io/elements.h"
#include "io/quoted.h"
#include "io/text/number_list.h"

namespace rapt {
namespace {

std::string real_text(double value, std::string_view digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text(digits);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// The shortest text that reads back as the same number of this type.
template <class T>
std::string shortest(T value) {
  char digits[64];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  if constexpr (std::is_floating_point_v<T>) return real_text(value, text);
  return std::string(text);
}

std::string element_text(const TensorView& view, int64_t offset) {
  switch (view.dtype) {
    case DType::f32:
      return shortest(static_cast<const float*>(view.data)[offset]);
    case DType::f64:
      return shortest(static_cast<const double*>(view.data)[offset]);
    case DType::bf16:
      return shortest(static_cast<float>(static_cast<const BFloat16*>(view.data)[offset]));
    case DType::f16:
      return shortest(static_cast<float>(static_cast<const Float16*>(view.data)[offset]));
    case DType::i64:
      return shortest(static_cast<const int64_t*>(view.data)[offset]);
    case DType::i32:
      return shortest(static_cast<const int32_t*>(view.data)[offset]);
    case DType::u8:
      return shortest(static_cast<const uint8_t*>(view.data)[offset]);
    case DType::boolean:
      return static_cast<const bool*>(view.data)[offset] ? "true" : "false";
  }
  throw Error(ErrorCode::dtype, "an element type without a name");
}

// Buffers the output, so that a number needs no system call.
class TextWriter {
 public:
  explicit TextWriter(const WriteBytes& write) : write_(write) {}
  void operator()(std::string_view text) {
    constexpr size_t kChunk = size_t{1} << 16;
    text_ += text;
    if (text_.size() >= kChunk) flush();
  }
  void flush() {
    write_(text_.data(), std::ssize(text_));
    text_.clear();
  }

 private:
  const WriteBytes& write_;
  std::string text_;
};

void write_nested(TextWriter& out, const TensorView& view, int dim, int64_t offset) {
  if (dim == view.rank) {
    const std::string text = element_text(view, offset);
    const bool number = text.find('n') == std::string::npos || view.dtype == DType::boolean;
    return number ? out(text) : out('"' + text + '"');
  }
  out("[");
  for (int64_t i = 0; i < view.shape[dim]; ++i) {
    // A line for each row.
    if (i > 0)
      out(dim + 1 == view.rank ? ", " : ",\n" + std::string(static_cast<size_t>(dim) + 1, ' '));
    write_nested(out, view, dim + 1, offset + i * view.strides[dim]);
  }
  out("]");
}

// Limits the number of lines. Empty rows are lines, too, so a small array could fill a disk.
void check_lines(const char* format, const TensorView& view) {
  if (view.count() > 0) return;
  int64_t lines = 1;
  for (int d = 0; d < view.rank && view.shape[d] > 0; ++d)
    if (__builtin_mul_overflow(lines, view.shape[d], &lines)) lines = kMaxNumberText + 1;
  if (lines > kMaxNumberText)
    throw Error(ErrorCode::shape, std::string(format) + " of shape " + to_string(view.dims()) +
                                      " would be lines without a number; expected at most " +
                                      std::to_string(kMaxNumberText) + " of them");
}

}  // namespace

TextKind text_kind_of(const InputFile& file) {
  constexpr std::string_view kCsv = ".csv", kBlanks = " \t\r\n";
  const std::string_view name = file.name();
  if (name.size() > kCsv.size() && name.substr(name.size() - kCsv.size()) == kCsv)
    return TextKind::csv;
  char start[64] = {};
  const auto count = std::min(file.bytes(), static_cast<int64_t>(sizeof start));
  file.read(0, reinterpret_cast<std::byte*>(start), count);
  const std::string_view text(start, static_cast<size_t>(count));
  const size_t first = text.find_first_not_of(kBlanks);
  return first != std::string_view::npos && text[first] == '[' ? TextKind::json : TextKind::none;
}

// The memory of the text itself and of the numbers: a number of 8 bytes has at least a digit and a
// separator, and lists grow by doubling.
int64_t memory_of_text(const InputFile& file) noexcept {
  return 9 * std::min(file.bytes(), kMaxNumberText);
}

std::string text_of(const InputFile& file) {
  if (file.bytes() > kMaxNumberText)
    throw Error(ErrorCode::format, path_text(file.name()) + ": expected at most " +
                                       std::to_string(kMaxNumberText) +
                                       " bytes of numbers as text, got " +
                                       std::to_string(file.bytes()) + "; save them as .npy");
  std::string text(static_cast<size_t>(file.bytes()), '\0');
  file.read(0, reinterpret_cast<std::byte*>(text.data()), file.bytes());
  return text;
}

TensorFile NumberList::as_file(const char* format, const std::string& name,
                               std::vector<int64_t> shape) && {
  StoredTensor tensor;
  tensor.dtype = has_booleans()            ? DType::boolean
                 : whole_ && has_numbers() ? DType::i64
                                           : DType::f64;
  tensor.type = name_of(*tensor.dtype);
  tensor.shape = std::move(shape);
  std::vector<std::byte>& elements = has_booleans() ? booleans_ : numbers_;
  tensor.bytes = std::ssize(elements);
  tensor.file = std::make_shared<InputFile>(name, std::move(elements));
  TensorFile file;
  file.format = format;
  file.tensors = {std::move(tensor)};
  return file;
}

void write_csv(const WriteBytes& write, const TensorView& view) {
  check_elements(".csv", view);
  check_lines(".csv", view);
  if (view.rank > 2)
    throw Error(ErrorCode::shape, ".csv holds a matrix, got " + to_string(view.dims()) +
                                      "; JSON and .npy hold any rank");
  TextWriter out(write);
  const int64_t rows = view.rank > 0 ? view.shape[0] : 1;
  const int64_t columns = view.rank > 1 ? view.shape[1] : 1;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t offset =
          (view.rank > 0 ? i * view.strides[0] : 0) + (view.rank > 1 ? j * view.strides[1] : 0);
      std::string text = element_text(view, offset);
      if (view.dtype == DType::boolean) text = text == "true" ? "1" : "0";
      out((j > 0 ? "," : "") + text);
    }
    out("\n");
  }
  out.flush();
}

void write_json_array(const WriteBytes& write, const TensorView& view) {
  check_elements("JSON", view);
  check_lines("JSON", view);
  TextWriter out(write);
  write_nested(out, view, 0, 0);
  out("\n");
  out.flush();
}

}  // namespace rapt
