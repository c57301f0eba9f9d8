// A model in shards: the index is parsed, each shard opened once, each tensor looked up in its own.
#include "io/safetensors/safetensors_index.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "io/quoted.h"
#include "io/repeated_name.h"
#include "io/text/json_events.h"
#include "rapt/io/safetensors.h"

namespace rapt {
namespace {

class IndexReader final : public JsonEvents {
 public:
  explicit IndexReader(const std::string& file) : JsonEvents(file, "index of .safetensors files") {}

  std::vector<std::pair<std::string, std::string>> parse(std::string_view json) {
    read(json);
    if (!seen_map_) fail(ErrorCode::format, "expected a weight_map, got none");
    const std::string* name = repeated_name(
        weight_map_, [](const auto& entry) -> const auto& { return entry.first; });
    if (name != nullptr) twice("tensor " + in_quotes(*name));
    return std::move(weight_map_);
  }

  void open_object() override {
    if (place_ == Place::file) {
      place_ = Place::parts;
    } else if (place_ == Place::map) {
      place_ = Place::names;
    } else if (place_ == Place::metadata) {
      ++depth_in_metadata_;
    } else {
      refuse("an object");
    }
  }
  void open_array() override {
    if (place_ != Place::metadata || depth_in_metadata_ == 0) refuse("an array");
    ++depth_in_metadata_;
  }
  void close_object() override { close_array(); }
  void close_array() override {
    if (place_ == Place::metadata && --depth_in_metadata_ > 0) return;
    place_ = place_ == Place::parts ? Place::end : Place::parts;
  }

  void key(std::string& text) override {
    if (place_ == Place::metadata) return;
    if (place_ == Place::names)
      name(text);
    else
      part(text);
  }

  void string(std::string& text) override {
    if (skipped()) return;
    if (place_ != Place::shard) JsonEvents::string(text);
    // A separator or '..' could lead out of the folder.
    if (text.empty() || text == "." || text.find_first_of({"/\\\0", 3}) != std::string::npos ||
        text.find("..") != std::string::npos)
      refuse(in_quotes(text));
    weight_map_.back().second = std::move(text);
    place_ = Place::names;
  }
  void integer(int64_t value) override {
    if (!skipped()) JsonEvents::integer(value);
  }
  void other(const std::string& text) override {
    if (!skipped()) JsonEvents::other(text);
  }

 private:
  // The state of the parser: what may come next.
  enum class Place {
    file,      // the object of the file
    parts,     // "metadata", "weight_map", or the end
    metadata,  // its object, or anything within
    map,       // the object of weight_map
    names,     // the name of a tensor, or the end
    shard,     // its file name
    end
  };

  std::string expectation() const override {
    switch (place_) {
      case Place::metadata:
        return "expected the object of metadata";
      case Place::map:
        return "expected the object of weight_map";
      case Place::shard:
        return "expected the name of a file in the same folder for tensor " +
               in_quotes(weight_map_.back().first);
      default:
        return "expected an object {metadata, weight_map}";
    }
  }

  [[noreturn]] void twice(const std::string& what) const {
    fail(ErrorCode::format, "expected each name once, got " + what + " twice");
  }

  // The metadata, which contain nothing that the shards do not contain.
  bool skipped() const { return place_ == Place::metadata && depth_in_metadata_ > 0; }

  void part(const std::string& text) {
    if (text != "metadata" && text != "weight_map")
      fail(ErrorCode::format, "expected metadata and weight_map, got " + in_quotes(text));
    bool& seen = text == "metadata" ? seen_metadata_ : seen_map_;
    if (seen) twice("'" + text + "'");
    seen = true;
    place_ = text == "metadata" ? Place::metadata : Place::map;
  }

  void name(std::string& text) {
    if (std::ssize(text) > kMaxSafetensorsName)
      fail(ErrorCode::format, "expected names of at most " + std::to_string(kMaxSafetensorsName) +
                                  " bytes, got " + in_quotes(text));
    if (std::ssize(weight_map_) == kMaxSafetensorsTensors)
      fail(ErrorCode::format,
           "expected at most " + std::to_string(kMaxSafetensorsTensors) + " tensors, got more");
    weight_map_.emplace_back(std::move(text), "");
    place_ = Place::shard;
  }

  std::vector<std::pair<std::string, std::string>> weight_map_;
  Place place_ = Place::file;
  int depth_in_metadata_ = 0;
  bool seen_metadata_ = false, seen_map_ = false;
};

struct Shard {
  TensorFile file;
  std::unordered_map<std::string_view, const StoredTensor*> tensors;
};

Shard open_shard(const std::string& path, const std::string& index) {
  Shard shard;
  try {
    shard.file = open_safetensors(std::make_shared<InputFile>(path));
  } catch (const Error& e) {
    throw Error(e.code(), path_text(index) + ": a file that it names: " + e.what());
  }
  shard.tensors.reserve(shard.file.tensors.size());
  for (const StoredTensor& tensor : shard.file.tensors) shard.tensors[tensor.name] = &tensor;
  return shard;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> parse_safetensors_index(std::string_view json,
                                                                         const std::string& file) {
  return IndexReader(file).parse(json);
}

TensorFile open_safetensors_index(const std::shared_ptr<const InputFile>& index) {
  const std::string& name = index->name();
  if (index->bytes() > kMaxSafetensorsHeader)
    throw Error(ErrorCode::format, path_text(name) + ": expected an index of at most " +
                                       std::to_string(kMaxSafetensorsHeader) + " bytes, got " +
                                       std::to_string(index->bytes()));
  std::string json(static_cast<size_t>(index->bytes()), '\0');
  index->read(0, reinterpret_cast<std::byte*>(json.data()), std::ssize(json));

  const std::string folder = name.substr(0, name.rfind('/') + 1);  // empty: the current one
  std::map<std::string, Shard> shards;
  TensorFile result;
  result.format = "safetensors";
  for (const auto& [tensor, shard_name] : parse_safetensors_index(json, name)) {
    auto shard = shards.find(shard_name);
    if (shard == shards.end())
      shard = shards.emplace(shard_name, open_shard(folder + shard_name, name)).first;
    const auto found = shard->second.tensors.find(tensor);
    if (found == shard->second.tensors.end())
      throw Error(ErrorCode::format, path_text(name) + ": expected tensor " + in_quotes(tensor) +
                                         " in " + in_quotes(shard_name) +
                                         ", which has none of this name; write the index again");
    result.tensors.push_back(*found->second);
  }
  return result;
}

}  // namespace rapt
