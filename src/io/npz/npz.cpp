// .npz files: .npy files as members of a ZIP archive, in and out.
#include "rapt/io/npz.h"

#include <zlib.h>

#include <algorithm>

#include "io/elements.h"
#include "io/npy_header.h"
#include "io/npz/npz_member.h"
#include "io/npz/zip_member.h"
#include "io/npz/zip_writer.h"
#include "io/quoted.h"
#include "io/text/utf8.h"
#include "rapt/io/npy.h"

namespace rapt {
namespace {

constexpr std::string_view kEnding = ".npy";

// The name of a member in messages, with its file.
std::string where(const InputFile& file, std::string_view member) {
  return file.name() + ": " + in_quotes(member);
}

// PyTorch's archives hold a pickle of this name, in a folder.
void refuse_checkpoints(const InputFile& file, const std::vector<ZipMember>& members) {
  for (const ZipMember& member : members)
    if (member.name == "data.pkl" || member.name.ends_with("/data.pkl"))
      throw Error(ErrorCode::format,
                  path_text(file.name()) +
                      ": a PyTorch checkpoint, which is a pickle that rapt never reads; write the "
                      "tensors with safetensors.torch.save_file");
}

StoredTensor tensor_of(const std::shared_ptr<const InputFile>& file, const ZipMember& member,
                       NpyV2 v2) {
  // Reads and inflates only as many bytes as the header needs.
  ZipMemberReader reader(*file, member);
  std::vector<std::byte> prefix(static_cast<size_t>(std::min(member.bytes, kNpyHeaderLengthBytes)));
  reader.read(prefix.data(), std::ssize(prefix));
  const auto start = std::ssize(prefix);
  prefix.resize(static_cast<size_t>(npy_prefix_bytes(prefix, member.bytes)));
  reader.read(prefix.data() + start, std::ssize(prefix) - start);

  StoredTensor tensor = list_npy_header(prefix, member.bytes, where(*file, member.name), v2);
  tensor.name = member.name;
  if (tensor.name.ends_with(kEnding)) tensor.name.resize(tensor.name.size() - kEnding.size());
  tensor.file = file;
  tensor.deflated = member.deflated;
  if (!member.deflated) tensor.offset += member.offset;
  tensor.member_offset = member.offset;
  tensor.member_bytes = member.stored_bytes;
  tensor.member_crc = member.crc;
  return tensor;
}

ZipMember member_of(const StoredTensor& tensor) {
  ZipMember member;
  member.name = tensor.name;
  member.deflated = tensor.deflated;
  member.crc = tensor.member_crc;
  member.bytes = tensor.deflated ? tensor.offset + tensor.bytes : tensor.member_bytes;
  member.stored_bytes = tensor.member_bytes;
  member.offset = tensor.member_offset;
  return member;
}

// "a" and "a.npy" are different members, but the same tensor.
void check_distinct(const InputFile& file, const std::vector<StoredTensor>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const StoredTensor& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw Error(ErrorCode::format,
                path_text(where(file, *twice)) +
                    ": two members have this name, one of them with '.npy' behind it; write the "
                    "archive again with distinct names");
}

// The longest name that the local header has room for, without the ending.
constexpr size_t kMaxName = 65535 - kEnding.size();

void check_to_write(std::span<const NamedTensor> tensors, NpyV2 v2) {
  std::vector<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    const auto fail = [&](const std::string& what) {
      throw Error(ErrorCode::argument, ".npz: " + in_quotes(tensor.name) + ": " + what);
    };
    if (tensor.name.empty()) fail("expected a name for each tensor, got an empty one");
    if (tensor.name.size() > kMaxName)
      fail("expected a name of at most " + std::to_string(kMaxName) + " bytes, got " +
           std::to_string(tensor.name.size()));
    if (!is_utf8_without_zero(tensor.name))
      fail("expected a name in UTF-8 without a zero byte, got another");
    names.push_back(tensor.name);
    check_elements(".npz: " + in_quotes(tensor.name), tensor.view);
    npy_header_for(tensor.view.dtype, tensor.view.dims(),
                   v2);  // throws for a dtype that .npy lacks
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw Error(ErrorCode::argument,
                ".npz: expected distinct names, got " + in_quotes(*twice) + " twice");
}

}  // namespace

TensorFile open_npz(const std::shared_ptr<const InputFile>& file, NpyV2 v2) {
  const std::vector<ZipMember> members = read_zip_directory(*file);
  refuse_checkpoints(*file, members);
  TensorFile result;
  result.format = "npz";
  result.tensors.reserve(members.size());
  for (const ZipMember& member : members) result.tensors.push_back(tensor_of(file, member, v2));
  check_distinct(*file, result.tensors);
  return result;
}

void read_npz_member(const StoredTensor& tensor, std::byte* to) {
  const ZipMember member = member_of(tensor);
  ZipMemberReader reader(*tensor.file, member);
  std::vector<std::byte> header(static_cast<size_t>(member.bytes - tensor.bytes));
  reader.read(header.data(), std::ssize(header));
  reader.read(to, tensor.bytes);
  reader.finish();
}

void check_npz_member(const StoredTensor& tensor) {
  const ZipMember member = member_of(tensor);
  const auto bytes = tensor.file->map().subspan(static_cast<size_t>(member.offset),
                                                static_cast<size_t>(member.stored_bytes));
  check_crc(*tensor.file, member,
            static_cast<uint32_t>(
                crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size())));
}

void refuse_npz_member(const StoredTensor& tensor) {
  refuse_npy_type(tensor.type, where(*tensor.file, tensor.name));
}

void write_npz(const WriteBytes& write, std::span<const NamedTensor> tensors,
               Compression compression, NpyV2 v2) {
  check_to_write(tensors, v2);
  ZipWriter zip(write);
  for (const NamedTensor& tensor : tensors) {
    const std::string header = npy_header_for(tensor.view.dtype, tensor.view.dims(), v2);
    zip.add({tensor.name + std::string(kEnding), compression == Compression::deflated,
             std::ssize(header) + tensor.view.count() * size_of(tensor.view.dtype)},
            [&](const WriteBytes& to) {
              to(header.data(), std::ssize(header));
              write_elements(to, tensor.view);
            });
  }
  zip.finish();
}

}  // namespace rapt
