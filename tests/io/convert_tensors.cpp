// Converts a file of tensors to another format, through rapt::io alone:
//
//   convert_tensors [--v2] IN OUT
//
// The ending of OUT chooses its format; .deflated.npz is a compressed .npz. --v2 reads and writes
// '<V2' as bf16. Exits with 0, with 1 (the message of the Error on stderr) or with 2 (usage). Used
// by round_trip.py and numpy_round_trip.py.
#include <cstdio>
#include <functional>
#include <string_view>

#include "rapt/io/npy.h"
#include "rapt/io/npz.h"
#include "rapt/io/safetensors.h"

namespace rapt {
namespace {

using Write = std::function<void(const WriteBytes&, const std::vector<NamedTensor>&, NpyV2)>;

struct Format {
  std::string_view ending;
  Write write;
};

const Format kFormats[] = {
    {".safetensors", [](const WriteBytes& write, const std::vector<NamedTensor>& tensors,
                        NpyV2) { write_safetensors(write, tensors); }},
    {".deflated.npz", [](const WriteBytes& write, const std::vector<NamedTensor>& tensors,
                         NpyV2 v2) { write_npz(write, tensors, Compression::deflated, v2); }},
    {".npz", [](const WriteBytes& write, const std::vector<NamedTensor>& tensors,
                NpyV2 v2) { write_npz(write, tensors, Compression::stored, v2); }},
    {".npy",
     [](const WriteBytes& write, const std::vector<NamedTensor>& tensors, NpyV2 v2) {
       if (tensors.size() != 1) throw Error(ErrorCode::argument, "a .npy file holds one tensor");
       write_npy(write, tensors[0].view, v2);
     }},
};

void convert(const std::string& from, const std::string& to, NpyV2 v2) {
  std::vector<LoadedTensor> loaded;
  std::vector<NamedTensor> tensors;
  for (const StoredTensor& stored : open_tensor_file(from, v2).tensors) {
    loaded.push_back(load(stored));
    // .npy stores no name, but formats with several tensors need one.
    tensors.push_back({stored.name.empty() ? "x" : stored.name, loaded.back().view()});
  }
  for (const Format& format : kFormats) {
    if (!to.ends_with(format.ending)) continue;
    OutputFile file(to, Overwrite::yes);
    format.write([&](const void* data, int64_t bytes) { file.write(data, bytes); }, tensors, v2);
    return file.commit();
  }
  throw Error(ErrorCode::argument, to + ": an ending that is no format");
}

int run(std::vector<std::string> arguments) {
  NpyV2 v2 = NpyV2::refuse;
  if (!arguments.empty() && arguments[0] == "--v2") {
    v2 = NpyV2::bf16;
    arguments.erase(arguments.begin());
  }
  if (arguments.size() != 2) {
    std::fputs("usage: convert_tensors [--v2] IN OUT\n", stderr);
    return 2;
  }
  try {
    convert(arguments[0], arguments[1], v2);
    return 0;
  } catch (const Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace
}  // namespace rapt

int main(int argc, char** argv) { return rapt::run({argv + 1, argv + argc}); }
