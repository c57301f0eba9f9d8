#include "checkpoint/open_tensors.h"

#include <filesystem>
#include <memory>

#include "io/quoted.h"
#include "rapt/io/safetensors.h"

namespace rapt::checkpoint {
namespace {

bool is_there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

std::pair<TensorFile, std::string> open_tensors(const std::string& folder) {
  const std::string one = folder + "/model.safetensors", index = one + ".index.json";
  if (is_there(one)) return {open_safetensors(std::make_shared<InputFile>(one)), one};
  if (is_there(index)) return {open_safetensors_index(std::make_shared<InputFile>(index)), index};
  throw Error(ErrorCode::io, path_text(folder) +
                                 ": expected model.safetensors or model.safetensors.index.json; "
                                 "pickles such as pytorch_model.bin are not read; transformers "
                                 "writes the former by save_pretrained()");
}

}  // namespace rapt::checkpoint
