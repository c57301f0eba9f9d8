// Output files and standard output.
#include "tensor_output.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "failure.h"
#include "rapt/io/npy.h"
#include "shown.h"

namespace rapt::cli {
namespace {

[[noreturn]] void fail_stdout() {
  throw Failure(Exit::io,
                "cannot write to standard output: " + std::generic_category().message(errno));
}

bool ends_with(const std::string& text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
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
    fail_stdout();
  }
}

void Output::write_npy(const TensorView& tensor) {
  const std::string header = npy_header_for(tensor.dtype, tensor.dims());
  write(header.data(), static_cast<int64_t>(header.size()));
  const Tensor dense = tensor.contiguous() ? Tensor() : Tensor::copy_of(tensor);
  const TensorView& bytes = dense.defined() ? dense.view() : tensor;
  write(bytes.data, bytes.count() * size_of(bytes.dtype));
}

void Output::commit(const std::string& what) {
  if (!file_) return finish_stdout();
  file_->commit();
  std::fprintf(stderr, "wrote %s: %s\n", shown(path_).c_str(), what.c_str());
}

void require_npy_name(const std::string& option, const std::string& path) {
  std::error_code ignored;
  if (path == "-" || ends_with(path, ".npy")) return;
  if (std::filesystem::is_other(path, ignored)) return;  // a device or a pipe has no ending
  for (const std::string ending : {".npz", ".safetensors"}) {
    if (ends_with(path, ending)) throw not_built(option + ": writing " + ending + " files");
  }
  throw usage_error(option + ": the format follows the ending; expected '.npy', got '" + path +
                    "'");
}

void finish_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) fail_stdout();
}

}  // namespace rapt::cli
