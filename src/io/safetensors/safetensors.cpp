// .safetensors files, in and out: the length of the header, the header, the elements.
#include "rapt/io/safetensors.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "io/elements.h"
#include "io/quoted.h"
#include "io/repeated_name.h"
#include "io/safetensors/safetensors_header.h"
#include "io/safetensors/safetensors_types.h"

namespace rapt {
namespace {

// rapt::quoted has its full name below, because the JSON library includes std::quoted.

constexpr int64_t kLengthBytes = 8;  // of the header's length

uint64_t header_length(const InputFile& file) {
  std::array<std::byte, kLengthBytes> bytes;
  file.read(0, bytes.data(), kLengthBytes);
  uint64_t length = 0;
  for (int i = kLengthBytes - 1; i >= 0; --i)
    length = length << 8 | std::to_integer<uint64_t>(bytes[static_cast<size_t>(i)]);
  return length;
}

// The index in kSafetensorsTypes, by which the writer sorts.
size_t type_of(DType dtype) {
  const auto* type = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                  [&](const SafetensorsType& t) { return t.dtype == dtype; });
  return static_cast<size_t>(type - kSafetensorsTypes.begin());
}

// Escapes only what JSON requires, as the reference implementation does.
std::string json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    throw Error(ErrorCode::argument,
                ".safetensors: expected names and metadata in UTF-8, got " + rapt::in_quotes(text));
  }
}

void check_names(std::span<const NamedTensor> tensors,
                 std::span<const std::pair<std::string, std::string>> metadata) {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorCode::argument, ".safetensors: " + what);
  };
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == "__metadata__") fail("the name '__metadata__' is taken, choose another");
    if (std::ssize(tensor.name) > kMaxSafetensorsName)
      fail("expected names of at most " + std::to_string(kMaxSafetensorsName) + " bytes, got " +
           rapt::in_quotes(tensor.name));
  }
  if (std::ssize(tensors) > kMaxSafetensorsTensors || std::ssize(metadata) > kMaxSafetensorsTensors)
    fail("expected at most " + std::to_string(kMaxSafetensorsTensors) +
         " tensors, and texts, got " + std::to_string(std::max(tensors.size(), metadata.size())));
  const std::string* name = repeated_name(
      tensors, [](const auto& t) -> const auto& { return t.name; });
  if (name != nullptr) fail("expected each name once, got " + rapt::in_quotes(*name) + " twice");
  name = repeated_name(
      metadata, [](const auto& text) -> const auto& { return text.first; });
  if (name != nullptr) fail("expected each text once, got " + rapt::in_quotes(*name) + " twice");
}

// The length, the header, and blanks, so that the elements begin at a multiple of 64, the size of a
// vector.
std::string prefix_for(const std::vector<const NamedTensor*>& tensors,
                       std::span<const std::pair<std::string, std::string>> metadata) {
  std::string json = "{";
  const auto begin_entry = [&](const std::string& name) {
    json += (json.size() > 1 ? "," : "") + json_text(name) + ":";
  };
  if (!metadata.empty()) {
    begin_entry("__metadata__");
    json += "{";
    for (const auto& [name, text] : metadata)
      json += (json.back() == '{' ? "" : ",") + json_text(name) + ":" + json_text(text);
    json += "}";
  }
  int64_t offset = 0;
  for (const NamedTensor* tensor : tensors) {
    const TensorView& view = tensor->view;
    begin_entry(tensor->name);
    json += "{\"dtype\":\"" + std::string(kSafetensorsTypes[type_of(view.dtype)].name) +
            "\",\"shape\":[";
    for (int d = 0; d < view.rank; ++d) json += (d > 0 ? "," : "") + std::to_string(view.shape[d]);
    json += "],\"data_offsets\":[" + std::to_string(offset);
    if (__builtin_add_overflow(offset, view.count() * size_of(view.dtype), &offset))
      throw Error(ErrorCode::overflow, ".safetensors: the elements do not fit into 64 bits");
    json += "," + std::to_string(offset) + "]}";
  }
  json += "}";
  constexpr size_t kHeaderAlignment = 64;
  json.append(
      (kHeaderAlignment - (kLengthBytes + json.size()) % kHeaderAlignment) % kHeaderAlignment, ' ');
  if (std::ssize(json) > kMaxSafetensorsHeader)
    throw Error(ErrorCode::argument,
                ".safetensors: expected names and metadata that fit into a "
                "header of " +
                    std::to_string(kMaxSafetensorsHeader) + " bytes, got " +
                    std::to_string(json.size()));
  std::string prefix;
  for (int i = 0; i < kLengthBytes; ++i)
    prefix += static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * i) & 255);
  return prefix + json;
}

}  // namespace

TensorFile open_safetensors(std::shared_ptr<const InputFile> file) {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::format, path_text(file->name()) + ": " + what);
  };
  const int64_t behind_length = file->bytes() - kLengthBytes;
  if (behind_length < 0)
    fail("expected a .safetensors file, which begins with 8 bytes of length, got a file of " +
         std::to_string(file->bytes()) + "; it is cut short, copy or write it again");
  const uint64_t length = header_length(*file);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader))
    fail("expected a header of at most " + std::to_string(kMaxSafetensorsHeader) +
         " bytes, got one of " + std::to_string(length) +
         "; the file is damaged, or no .safetensors file");
  if (length > static_cast<uint64_t>(behind_length))
    fail("expected a header of " + std::to_string(length) + " bytes, got a file that ends after " +
         std::to_string(behind_length) + " of them; it is cut short, copy or write it again");

  std::string json(static_cast<size_t>(length), '\0');
  file->read(kLengthBytes, reinterpret_cast<std::byte*>(json.data()), std::ssize(json));
  if (!json.starts_with('{'))
    fail("expected a header that begins with '{', got " + rapt::in_quotes(json.substr(0, 1)) +
         "; the file is damaged, or no .safetensors file");
  const int64_t begin = kLengthBytes + std::ssize(json);
  SafetensorsHeader header = parse_safetensors_header(json, file->bytes() - begin, file->name());
  TensorFile result;
  result.format = "safetensors";
  result.tensors = std::move(header.tensors);
  result.metadata = std::move(header.metadata);
  for (StoredTensor& tensor : result.tensors) {
    tensor.file = file;
    tensor.offset += begin;
  }
  return result;
}

void write_safetensors(const WriteBytes& write, std::span<const NamedTensor> tensors,
                       std::span<const std::pair<std::string, std::string>> metadata) {
  check_names(tensors, metadata);
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) {
    check_elements(tensor.name, tensor.view);
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    const size_t a_type = type_of(a->view.dtype), b_type = type_of(b->view.dtype);
    return a_type != b_type ? a_type > b_type : a->name < b->name;
  });
  const std::string prefix = prefix_for(order, metadata);
  write(prefix.data(), std::ssize(prefix));
  for (const NamedTensor* tensor : order) write_elements(write, tensor->view, std::endian::little);
}

}  // namespace rapt
