// Reads tensors that the user names; announces large memory first, and suggests the nearest name on
// a mistake.
#include "cli/input/tensor_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "rapt/io/number_text.h"

namespace rapt::cli {
namespace {

constexpr const char* kStandardInput = "standard input";

// The beginning of a message: "--query: ", or "" if the file is not the value of an option.
std::string of_option(const std::string& option) { return option.empty() ? "" : option + ": "; }

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Throws if the path names nothing.
void require_file(const std::string& option, const std::string& path) {
  if (exists(path)) return;
  throw Failure(Exit::io, of_option(option) + "no such file: '" + path + "'", file_meant(path));
}

// Reads a file descriptor to its end and counts the bytes against the budget as they arrive.
std::vector<std::byte> read_all(int descriptor, const std::string& name, MemoryBudget& budget) {
  constexpr size_t kChunk = size_t{1} << 20;
  std::vector<std::byte> bytes;
  for (size_t size = 0;;) {
    if (size == bytes.size()) {
      const size_t grow = std::max(kChunk, size);  // doubling: copies stay linear in the size
      budget.take(static_cast<int64_t>(grow), name);
      bytes.resize(size + grow);
    }
    const ssize_t count = read(descriptor, bytes.data() + size, bytes.size() - size);
    const int error = errno;
    stop_if_interrupted();
    if (count < 0 && error == EINTR) continue;
    if (count < 0) {
      throw Failure(Exit::io, name + ": " + std::generic_category().message(error));
    }
    if (count == 0) {
      bytes.resize(size);
      return bytes;
    }
    size += static_cast<size_t>(count);
  }
}

std::vector<std::byte> read_all_of(const std::string& option, const std::string& path,
                                   MemoryBudget& budget) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw Failure(Exit::io, of_option(option) + "cannot open '" + path +
                                "': " + std::generic_category().message(errno));
  }
  try {
    std::vector<std::byte> bytes = read_all(descriptor, path, budget);
    close(descriptor);
    return bytes;
  } catch (...) {
    close(descriptor);
    throw;
  }
}

// "'a', 'b', 'c' and 17 more"
std::string listed_names(const TensorFile& file) {
  constexpr size_t kMost = 12;  // a line or two
  std::string text;
  for (size_t i = 0; i < std::min(kMost, file.tensors.size()); ++i)
    text += (i > 0 ? ", '" : "'") + file.tensors[i].name + "'";
  if (file.tensors.size() > kMost)
    text += " and " + std::to_string(file.tensors.size() - kMost) + " more";
  return text;
}

std::string shown_path(const std::string& path) { return path == "-" ? kStandardInput : path; }

// Adds to the library's error about '<V2' how to request that it is read.
template <class Call>
auto with_hint(NpyV2 v2, const Call& call) {
  try {
    return call();
  } catch (const Error& error) {
    const bool hinted = error.code() == ErrorCode::dtype && v2 == NpyV2::refuse &&
                        std::string_view(error.what()).find("V2'") != std::string_view::npos;
    if (!hinted) throw;
    throw Failure(Exit::data, error.what(), "--npy-v2 bf16 reads it as bf16");
  }
}

[[noreturn]] void refuse_name(const std::string& option, const TensorAddress& address,
                              const TensorFile& file) {
  const std::string where = of_option(option) + shown_path(address.path);
  if (file.tensors.size() == 1 && file.tensors[0].name.empty()) {
    throw Failure(Exit::data,
                  where + " holds one tensor without a name, got ':" + address.name + "'",
                  "leave out ':" + address.name + "'");
  }
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : file.tensors) names.push_back(tensor.name);
  const std::string meant = did_you_mean(address.name, names);
  throw Failure(Exit::data,
                where + ": no tensor '" + address.name + "'; there " +
                    (names.size() == 1 ? "is "
                     : names.empty()   ? "is none"
                                       : "are ") +
                    listed_names(file),
                meant);
}

[[noreturn]] void refuse_many(const std::string& option, const std::string& path,
                              const TensorFile& file) {
  const std::string where = of_option(option) + shown_path(path);
  if (file.tensors.empty()) throw Failure(Exit::data, where + " holds no tensor");
  throw Failure(Exit::data,
                where + " holds " + std::to_string(file.tensors.size()) +
                    " tensors, expected the name of one: " + listed_names(file),
                "for example '" + path + ":" + file.tensors[0].name + "'");
}

}  // namespace

void add_npy_v2_option(CLI::App& command, std::string& value) {
  offer(command
            .add_option("--npy-v2", value,
                        "bf16: '<V2' in .npy and .npz files, bytes without a type, is bf16, read "
                        "and written")
            ->type_name("T")
            ->group("Files"),
        {"bf16"});
}

NpyV2 parse_npy_v2(const std::string& value) {
  if (value.empty()) return NpyV2::refuse;
  if (value == "bf16") return NpyV2::bf16;
  throw usage_error("--npy-v2: expected bf16, got '" + value + "'");
}

TensorAddress address_of(const std::string& text) {
  if (text == "-" || exists(text)) return {text, "", false};
  if (text.compare(0, 2, "-:") == 0) return {"-", text.substr(2), true};
  for (size_t colon = text.rfind(':'); colon != std::string::npos && colon > 0;
       colon = text.rfind(':', colon - 1)) {
    if (exists(text.substr(0, colon))) return {text.substr(0, colon), text.substr(colon + 1), true};
  }
  // Neither path exists: the message names the nearest file.
  for (const std::string_view ending : {".npz:", ".safetensors:", ".npy:", ".json:"}) {
    const size_t at = text.find(ending);
    if (at == std::string::npos) continue;
    const size_t colon = at + ending.size() - 1;
    return {text.substr(0, colon), text.substr(colon + 1), true};
  }
  return {text, "", false};
}

std::shared_ptr<const InputFile> open_input(const std::string& option, const std::string& path,
                                            MemoryBudget& budget) {
  if (path == "-") {
    return std::make_shared<InputFile>(kStandardInput,
                                       read_all(STDIN_FILENO, kStandardInput, budget));
  }
  require_file(option, path);
  std::error_code ignored;
  if (std::filesystem::is_other(path, ignored))  // <(command) of a shell
    return std::make_shared<InputFile>(path, read_all_of(option, path, budget));
  return std::make_shared<InputFile>(path);
}

TensorFile TensorInput::opened(const std::string& option, const std::string& path) {
  std::shared_ptr<const InputFile> file = open_input(option, path, budget_);
  const TextKind kind = text_kind_of(*file);
  if (kind == TextKind::none) {
    return with_hint(v2_, [&] { return open_tensor_file(std::move(file), v2_); });
  }
  budget_.take(memory_of_text(*file), shown_path(path));
  return kind == TextKind::json ? open_json_array(file) : open_csv(file);
}

const TensorFile& TensorInput::open(const std::string& option, const std::string& path) {
  const auto known = files_.find(path);
  return known != files_.end() ? known->second
                               : files_.emplace(path, opened(option, path)).first->second;
}

std::vector<const StoredTensor*> TensorInput::find(const std::string& option,
                                                   const TensorAddress& address) {
  const TensorFile& file = open(option, address.path);
  std::vector<const StoredTensor*> tensors;
  if (!address.named) {
    for (const StoredTensor& tensor : file.tensors) tensors.push_back(&tensor);
    return tensors;
  }
  const StoredTensor* const tensor = address.name.empty() ? nullptr : file.find(address.name);
  if (tensor == nullptr) refuse_name(option, address, file);
  return {tensor};
}

LoadedTensor TensorInput::read(const std::string& option, const std::string& text) {
  const TensorAddress address = address_of(text);
  const std::vector<const StoredTensor*> tensors = find(option, address);
  if (tensors.size() != 1) refuse_many(option, address.path, open(option, address.path));
  return read(option, *tensors[0]);
}

LoadedTensor TensorInput::read(const std::string& option, const StoredTensor& tensor) {
  budget_.take(memory_of(tensor), option);
  return with_hint(v2_, [&] { return load(tensor); });
}

std::string file_meant(const std::string& path) {
  std::error_code error;
  const std::filesystem::path asked(path);
  const std::filesystem::path folder = asked.has_parent_path() ? asked.parent_path() : ".";
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  return did_you_mean(asked.filename().string(), known);
}

std::string read_text_file(const std::string& option, const std::string& path,
                           MemoryBudget& budget) {
  const auto file = open_input(option, path == "-" ? "./-" : path, budget);
  budget.take(file->bytes(), path);
  std::string text(static_cast<size_t>(file->bytes()), '\0');
  file->read(0, reinterpret_cast<std::byte*>(text.data()), file->bytes());
  return text;
}

LoadedTensor owned(Tensor tensor) {
  const TensorView view = tensor.view();
  return {std::move(tensor), view};
}

}  // namespace rapt::cli
