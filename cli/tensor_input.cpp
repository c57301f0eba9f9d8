// Reading what the user names, with the memory told first and the nearest name on a mistake.
#include "tensor_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <span>
#include <system_error>
#include <type_traits>
#include <vector>

#include "arguments.h"
#include "failure.h"
#include "rapt/io/npy.h"

namespace rapt::cli {
namespace {

// Formats of the contract that this build cannot read, as they look in an argument.
constexpr std::string_view kUnbuiltFormats[] = {".npz", ".safetensors"};

void refuse_unbuilt_format(const std::string& option, const std::string& path) {
  for (const std::string_view ending : kUnbuiltFormats) {
    const size_t at = path.rfind(ending);
    if (at == std::string::npos) continue;
    const size_t after = at + ending.size();
    if (after == path.size() || path[after] == ':') {
      throw not_built(option + ": reading " + std::string(ending) + " files", "use .npy files");
    }
  }
}

// Throws if the path names nothing.
void require_file(const std::string& option, const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return;
  const std::filesystem::path asked(path);
  const std::filesystem::path folder = asked.has_parent_path() ? asked.parent_path() : ".";
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw Failure(Exit::io, option + ": no such file: '" + path + "'",
                did_you_mean(asked.filename().string(), known));
}

// All of a file descriptor. What comes is counted against the budget while it comes.
std::vector<std::byte> read_all(int descriptor, const std::string& name, MemoryBudget* budget) {
  constexpr size_t kChunk = size_t{1} << 20;
  std::vector<std::byte> bytes;
  for (size_t size = 0;;) {
    if (size == bytes.size()) {
      const size_t grow = std::max(kChunk, size);  // doubling: copies stay linear in the size
      if (budget) budget->take(static_cast<int64_t>(grow), name);
      bytes.resize(size + grow);
    }
    const ssize_t count = read(descriptor, bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Failure(Exit::io, name + ": " + std::generic_category().message(errno));
    }
    if (count == 0) {
      bytes.resize(size);
      return bytes;
    }
    size += static_cast<size_t>(count);
  }
}

template <class From, class To>
void convert(const TensorView& from, std::span<To> to) {
  std::vector<int64_t> index(static_cast<size_t>(from.rank), 0);
  int64_t offset = 0;
  for (To& element : to) {
    const From& value = static_cast<const From*>(from.data)[offset];
    if constexpr (requires { To::from(0.0f); }) {
      // By way of float: a double that lies near the middle of two 16-bit numbers may round to the
      // farther one, by less than 1e-5 of half a step.
      element = To::from(static_cast<float>(value));
    } else if constexpr (requires { From::from(0.0f); }) {
      element = static_cast<To>(static_cast<float>(value));
    } else {
      element = static_cast<To>(value);
    }
    for (int d = from.rank - 1; d >= 0; --d) {
      offset += from.strides[d];
      if (++index[static_cast<size_t>(d)] < from.shape[d]) break;
      offset -= from.shape[d] * from.strides[d];
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

template <class To>
void convert_any(const TensorView& from, std::span<To> to) {
  switch (from.dtype) {
    case DType::f32:
      return convert<float>(from, to);
    case DType::f64:
      return convert<double>(from, to);
    case DType::bf16:
      return convert<BFloat16>(from, to);
    case DType::f16:
      return convert<Float16>(from, to);
    case DType::i32:
      return convert<int32_t>(from, to);
    case DType::i64:
      return convert<int64_t>(from, to);
    case DType::u8:
      return convert<uint8_t>(from, to);
    default:
      throw Error(ErrorCode::dtype,
                  std::string("expected numbers, got a tensor of type ") + name_of(from.dtype));
  }
}

constexpr std::string_view kNumberCharacters = "0123456789+-.eE";
constexpr std::string_view kSeparators = " \t,;\n";

}  // namespace

Tensor read_tensor(const std::string& option, const std::string& path, MemoryBudget& budget) {
  refuse_unbuilt_format(option, path);
  std::shared_ptr<const InputFile> file;
  if (path == "-") {
    file = std::make_shared<InputFile>("standard input",
                                       read_all(STDIN_FILENO, "standard input", &budget));
  } else {
    require_file(option, path);
    file = std::make_shared<InputFile>(path);
  }
  const TensorFile tensors = open_tensor_file(file);
  budget.take(tensors.tensors[0].bytes, option);
  return Tensor::copy_of(load(tensors.tensors[0]).view());
}

std::string read_text_file(const std::string& option, const std::string& path) {
  require_file(option, path);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw Failure(Exit::io, option + ": cannot open '" + path +
                                "': " + std::generic_category().message(errno));
  }
  try {
    const std::vector<std::byte> bytes = read_all(descriptor, path, nullptr);
    close(descriptor);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  } catch (...) {
    close(descriptor);
    throw;
  }
}

bool is_matrix_text(std::string_view text) {
  const std::string allowed = std::string(kNumberCharacters) + std::string(kSeparators);
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

Tensor parse_matrix(const std::string& option, std::string_view text) {
  std::vector<double> values;
  int64_t rows = 0, columns = 0, in_row = 0;
  const auto end_row = [&] {
    if (in_row == 0) return;
    if (rows > 0 && in_row != columns) {
      throw Failure(Exit::data, option + ": row " + std::to_string(rows) + " has " +
                                    std::to_string(in_row) + " numbers, the rows before it have " +
                                    std::to_string(columns));
    }
    columns = in_row;
    in_row = 0;
    ++rows;
  };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (kSeparators.find(c) != std::string_view::npos) {
      if (c == ';' || c == '\n') end_row();
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
    values.push_back(parse_real(option, std::string(text.substr(at, end - at))));
    ++in_row;
    at = end;
  }
  end_row();
  Tensor matrix(DType::f64, {rows, columns});
  std::copy(values.begin(), values.end(), matrix.values<double>().begin());
  return matrix;
}

Tensor converted(const TensorView& tensor, DType dtype) {
  Tensor result(dtype, tensor.dims());
  switch (dtype) {
    case DType::f32:
      convert_any(tensor, result.values<float>());
      break;
    case DType::f64:
      convert_any(tensor, result.values<double>());
      break;
    case DType::bf16:
      convert_any(tensor, result.values<BFloat16>());
      break;
    case DType::f16:
      convert_any(tensor, result.values<Float16>());
      break;
    case DType::i64:
      convert_any(tensor, result.values<int64_t>());
      break;
    default:
      throw Error(ErrorCode::dtype, std::string("nothing is converted to ") + name_of(dtype));
  }
  return result;
}

}  // namespace rapt::cli
