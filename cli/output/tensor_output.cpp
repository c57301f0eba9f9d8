// Output files and standard output.
#include "cli/output/tensor_output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "cli/input/arguments.h"
#include "cli/output/narrate.h"
#include "cli/output/progress.h"
#include "cli/output/tensor_text.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "rapt/io/npy.h"
#include "rapt/io/number_text.h"
#include "rapt/io/raw.h"
#include "rapt/io/safetensors.h"

namespace rapt::cli {
namespace {

struct Ending {
  std::string_view text;
  FileFormat format;
};
constexpr std::array<Ending, 7> kEndings = {{{".npy", FileFormat::npy},
                                             {".npz", FileFormat::npz},
                                             {".safetensors", FileFormat::safetensors},
                                             {".csv", FileFormat::csv},
                                             {".json", FileFormat::json},
                                             {".raw", FileFormat::raw},
                                             {".bin", FileFormat::raw}}};

[[noreturn]] void fail_stdout(const void* data) {
  const int error = errno;
  if (error == EINTR) stop_if_interrupted();
  // Writing from a part that a mapped file has lost fails with EFAULT.
  const char* const lost = error == EFAULT ? mapped_file_at(data) : nullptr;
  if (lost != nullptr)
    throw Failure(Exit::io, std::string(lost) + ": became shorter while it was being read");
  throw Failure(Exit::io,
                "cannot write to standard output: " + std::generic_category().message(error));
}

}  // namespace

Output::Output(const std::string& option, const std::string& path, Overwrite overwrite)
    : path_(path) {
  if (path.empty()) throw usage_error(option + ": expected a file name, got an empty one");
  if (path == "-") return;
  try {
    file_ = std::make_unique<OutputFile>(path, overwrite);
  } catch (const Error& error) {
    std::error_code ignored;
    const bool in_the_way =
        overwrite == Overwrite::no && std::filesystem::is_regular_file(path, ignored);
    throw Failure(exit_of(error.code()), option + ": " + error.what(),
                  in_the_way ? "--force overwrites it" : "");
  }
}

void Output::write(const void* data, int64_t bytes) {
  if (file_) return file_->write(data, bytes);
  if (std::fwrite(data, 1, static_cast<size_t>(bytes), stdout) != static_cast<size_t>(bytes)) {
    fail_stdout(data);
  }
}

void Output::commit(const std::string& what) {
  if (!file_) return finish_stdout();
  file_->commit();
  narrate("wrote " + path_ + ": " + what);
}

TensorPlace place_of(const std::string& option, const std::string& text, Endings endings) {
  std::error_code ignored;
  if (text == "-" || std::filesystem::is_other(text, ignored)) return {text, "", FileFormat::npy};
  std::string expected;
  for (const Ending& ending : kEndings) {
    const bool tensors = ending.format <= FileFormat::safetensors;
    if (!tensors && endings == Endings::tensors) continue;
    expected += (expected.empty() ? "'" : ", '") + std::string(ending.text) + "'";
    if (text.size() > ending.text.size() && text.ends_with(ending.text))
      return {text, "", ending.format};
    const size_t at = text.find(std::string(ending.text) + ":");
    if (at == std::string::npos || at == 0) continue;
    const size_t colon = at + ending.text.size();
    TensorPlace place{text.substr(0, colon), text.substr(colon + 1), ending.format};
    if (!place.many())
      throw usage_error(option + ": a " + std::string(ending.text) +
                        " file holds one tensor without a name, got '" + text + "'");
    if (place.name.empty())
      throw usage_error(option + ": expected a name after the colon, got '" + text + "'");
    return place;
  }
  throw usage_error(option + ": the format follows the ending; expected " + expected + ", got '" +
                    text + "'");
}

void TensorOutputs::add(const std::string& what, const std::string& option,
                        const TensorPlace& place) {
  Entry entry{what, {place.name.empty() ? what : place.name, {}}};
  for (File& file : files_) {
    if (!same_file(file.output.path(), place.path)) continue;
    const bool taken = std::any_of(file.entries.begin(), file.entries.end(), [&](const Entry& e) {
      return e.tensor.name == entry.tensor.name;
    });
    if (!place.many()) throw usage_error(option + ": '" + place.path + "' is named as two outputs");
    if (taken)
      throw usage_error(option + ": '" + place.path + ":" + entry.tensor.name +
                        "' is named as two outputs");
    file.entries.push_back(std::move(entry));
    return;
  }
  File& file = files_.emplace_back(File{Output(option, place.path, overwrite_), place.format, {}});
  file.entries.push_back(std::move(entry));
}

bool TensorOutputs::to_stdout() const {
  return std::any_of(files_.begin(), files_.end(),
                     [](const File& file) { return file.output.to_stdout(); });
}

void TensorOutputs::check(const std::string& what, DType dtype) const {
  if (dtype != DType::bf16) return;
  for (const File& file : files_) {
    const bool numpy = file.format == FileFormat::npy || file.format == FileFormat::npz;
    const auto entry = std::find_if(file.entries.begin(), file.entries.end(),
                                    [&](const Entry& e) { return e.what == what; });
    if (!numpy || entry == file.entries.end()) continue;
    const std::string ending = file.format == FileFormat::npy ? ".npy" : ".npz";
    if (v2_ == NpyV2::refuse)
      throw usage_error(file.output.path() + ": " + what + " is bf16, for which " + ending +
                            " files have no name",
                        ".safetensors files have one; --npy-v2 bf16 writes it as '<V2', bytes "
                        "without a type");
    narrate(file.output.path() + ": " + what +
            " is bf16, written as '<V2', which NumPy reads as bytes without a type");
  }
}

void TensorOutputs::set(const std::string& what, const TensorView& tensor) {
  for (File& file : files_)
    for (Entry& entry : file.entries)
      if (entry.what == what) entry.tensor.view = tensor;
}

void TensorOutputs::write() {
  ProgressLine progress(-1);
  int64_t done = 0, all = 0;  // bytes of elements; text and headers add a little
  for (const File& file : files_)
    for (const Entry& entry : file.entries)
      all += entry.tensor.view.count() * size_of(entry.tensor.view.dtype);
  for (File& file : files_) {
    std::vector<NamedTensor> tensors;
    for (const Entry& entry : file.entries) tensors.push_back(entry.tensor);
    const TensorView& first = tensors[0].view;  // the only tensor, if the file holds one
    const WriteBytes write = [&](const void* data, int64_t bytes) {
      constexpr int64_t kChunkBytes = int64_t{16} << 20;  // between two chunks Ctrl-C is checked
      for (const char* from = static_cast<const char*>(data); bytes > 0;) {
        stop_if_interrupted();
        const int64_t chunk = std::min(bytes, kChunkBytes);
        file.output.write(from, chunk);
        from += chunk;
        bytes -= chunk;
        done += chunk;
        progress.report(std::min(1.0, static_cast<double>(done) / static_cast<double>(all)));
      }
    };
    switch (file.format) {
      case FileFormat::npy:
        write_npy(write, first, v2_);
        break;
      case FileFormat::npz:
        write_npz(write, tensors, compression_, v2_);
        break;
      case FileFormat::safetensors:
        write_safetensors(write, tensors, metadata_);
        break;
      case FileFormat::raw:
        write_raw(write, first);
        break;
      case FileFormat::csv:
        write_csv(write, first);
        break;
      case FileFormat::json:
        write_json_array(write, first);
        break;
    }
    if (file.output.to_stdout()) finish_stdout();  // if this fails, no file appears
  }
}

std::vector<TensorOutputs::Written> TensorOutputs::commit() {
  std::vector<Written> written;
  for (File& file : files_) {
    constexpr size_t kMostTold = 8;
    std::string what;
    for (size_t i = 0; i < file.entries.size(); ++i) {
      const Entry& entry = file.entries[i];
      if (i < kMostTold)
        what += (i > 0 ? ", " : "") + entry.what + " " + type_text(entry.tensor.view);
      const bool many = file.format == FileFormat::npz || file.format == FileFormat::safetensors;
      written.push_back({entry.what, file.output.path(), many ? entry.tensor.name : ""});
    }
    if (file.entries.size() > kMostTold)
      what += " and " + std::to_string(file.entries.size() - kMostTold) + " more";
    file.output.commit(what);
  }
  return written;
}

bool same_file(const std::string& a, const std::string& b) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto plain = [&](const std::string& path) {
    return path == "-" || fs::is_other(path, ignored);
  };
  if (plain(a) || plain(b)) return false;
  if (a == b) return true;
  const auto whole = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
  };
  const fs::path first = whole(a);  // empty if one of its folders cannot be read
  return !first.empty() && first == whole(b);
}

void finish_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) fail_stdout(nullptr);
}

}  // namespace rapt::cli
