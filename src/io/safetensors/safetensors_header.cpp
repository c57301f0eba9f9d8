// The rules of the header: every value in its place, names unique, elements without gaps to the
// end.
#include "io/safetensors/safetensors_header.h"

#include <algorithm>

#include "io/quoted.h"
#include "io/repeated_name.h"
#include "io/safetensors/safetensors_types.h"
#include "io/text/json_events.h"
#include "rapt/io/safetensors.h"

namespace rapt {
namespace {

std::string range_text(int64_t begin, int64_t end) {
  return "[" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

int64_t end_of(const StoredTensor& tensor) { return tensor.offset + tensor.bytes; }

class HeaderReader final : public JsonEvents {
 public:
  HeaderReader(const std::string& file, int64_t data_bytes)
      : JsonEvents(file, "header of a .safetensors file"), data_bytes_(data_bytes) {}

  SafetensorsHeader parse(std::string_view json) {
    read(json);
    const std::string* name = repeated_name(
        header_.tensors, [](const auto& t) -> const auto& { return t.name; });
    if (name != nullptr) twice("tensor " + in_quotes(*name));
    name = repeated_name(
        header_.metadata, [](const auto& text) -> const auto& { return text.first; });
    if (name != nullptr) twice("text " + in_quotes(*name));
    check_layout();
    return std::move(header_);
  }

  void open_object() override {
    switch (place_) {
      case Place::file:
        place_ = Place::names;
        return;
      case Place::entry:
        place_ = Place::fields;
        return;
      case Place::metadata:
        place_ = Place::metadata_names;
        return;
      default:
        refuse("an object");
    }
  }

  void close_object() override {
    if (place_ == Place::fields) finish_tensor();
    place_ = place_ == Place::names ? Place::end : Place::names;
  }

  void key(std::string& text) override {
    if (place_ == Place::names)
      name(text);
    else if (place_ == Place::fields)
      field(text);
    else
      metadata_name(text);
  }

  void string(std::string& text) override {
    if (place_ == Place::metadata_text) {
      header_.metadata.back().second = std::move(text);
      place_ = Place::metadata_names;
    } else if (place_ == Place::dtype) {
      set_type(text);
      place_ = Place::fields;
    } else {
      JsonEvents::string(text);
    }
  }

  void open_array() override {
    if (place_ == Place::shape)
      place_ = Place::lengths;
    else if (place_ == Place::offsets)
      place_ = Place::first_offset;
    else
      refuse("an array");
  }

  void close_array() override {
    if (place_ == Place::first_offset || place_ == Place::second_offset) refuse("fewer");
    place_ = Place::fields;
  }

  void integer(int64_t value) override {
    switch (place_) {
      case Place::lengths:
        if (tensor().shape.size() == kMaxRank)
          fail(ErrorCode::shape,
               label() + "expected at most " + std::to_string(kMaxRank) + " dimensions, got more");
        tensor().shape.push_back(value);
        return;
      case Place::first_offset:
        tensor().offset = value;
        place_ = Place::second_offset;
        return;
      case Place::second_offset:
        end_ = value;
        place_ = Place::after_offsets;
        return;
      default:
        JsonEvents::integer(value);
    }
  }

 private:
  // The state of the parser: what may come next.
  enum class Place {
    file,            // the object of the file
    names,           // the name of a tensor, or the end
    entry,           // the object of a tensor
    fields,          // the name of a field, or the end
    dtype,           // its text
    shape,           // its array
    lengths,         // a length, or the end
    offsets,         // their array
    first_offset,    // the first
    second_offset,   // the second
    after_offsets,   // the end of their array
    metadata,        // its object
    metadata_names,  // a name, or the end
    metadata_text,   // its text
    end
  };
  // A bit for each, in seen_.
  enum Field : unsigned { kDtype = 1, kShape = 2, kOffsets = 4, kAllFields = 7 };

  std::string expectation() const override {
    switch (place_) {
      case Place::file:
        return "expected an object";
      case Place::entry:
        return label() + "expected an object {dtype, shape, data_offsets}";
      case Place::dtype:
        return label() + "expected the name of its dtype";
      case Place::shape:
        return label() + "expected the array of its shape";
      case Place::lengths:
        return label() + "expected lengths of 0 or more in its shape";
      case Place::offsets:
      case Place::first_offset:
      case Place::second_offset:
      case Place::after_offsets:
        return label() + "expected two data_offsets of 0 or more";
      case Place::metadata:
        return "expected the object of __metadata__";
      case Place::metadata_text:
        return "expected text for __metadata__ " + in_quotes(header_.metadata.back().first);
      case Place::names:
      case Place::fields:
      case Place::metadata_names:
      case Place::end:
        break;  // keys and ends, which the parser itself checks
    }
    return "expected a name";
  }

  StoredTensor& tensor() { return header_.tensors.back(); }
  std::string label() const { return "tensor " + in_quotes(header_.tensors.back().name) + ": "; }

  [[noreturn]] void twice(const std::string& what) const {
    fail(ErrorCode::format, "expected each name once, got " + what + " twice");
  }

  void name(std::string& text) {
    if (text == "__metadata__") {
      if (seen_metadata_) twice("'__metadata__'");
      seen_metadata_ = true;
      place_ = Place::metadata;
      return;
    }
    if (std::ssize(text) > kMaxSafetensorsName)
      fail(ErrorCode::format, "expected names of at most " + std::to_string(kMaxSafetensorsName) +
                                  " bytes, got " + in_quotes(text));
    if (std::ssize(header_.tensors) == kMaxSafetensorsTensors)
      fail(ErrorCode::format,
           "expected at most " + std::to_string(kMaxSafetensorsTensors) + " tensors, got more");
    header_.tensors.emplace_back();
    tensor().name = std::move(text);
    seen_ = 0;
    place_ = Place::entry;
  }

  void field(const std::string& text) {
    const auto take = [&](Field which, Place place) {
      if (seen_ & which) twice("'" + text + "' of tensor " + in_quotes(tensor().name));
      seen_ |= which;
      place_ = place;
    };
    if (text == "dtype")
      take(kDtype, Place::dtype);
    else if (text == "shape")
      take(kShape, Place::shape);
    else if (text == "data_offsets")
      take(kOffsets, Place::offsets);
    else
      fail(ErrorCode::format,
           label() + "expected dtype, shape and data_offsets, got " + in_quotes(text));
  }

  void metadata_name(std::string& text) {
    if (std::ssize(header_.metadata) == kMaxSafetensorsTensors)
      fail(ErrorCode::format, "expected at most " + std::to_string(kMaxSafetensorsTensors) +
                                  " texts in __metadata__, got more");
    header_.metadata.emplace_back(std::move(text), "");
    place_ = Place::metadata_text;
  }

  void set_type(std::string& text) {
    const auto* type = std::find_if(kSafetensorsTypes.begin(), kSafetensorsTypes.end(),
                                    [&](const SafetensorsType& t) { return t.name == text; });
    if (type == kSafetensorsTypes.end())
      fail(
          ErrorCode::dtype,
          label() + "expected a dtype of the format (F32, BF16, I64, ...), got " + in_quotes(text));
    bits_ = type->bits;
    tensor().type = std::move(text);
    tensor().dtype = type->dtype;
    tensor().byte_order = type->bits <= 8 ? std::endian::native : std::endian::little;
  }

  // The bytes of all elements by dtype and shape. A zero length makes an empty tensor, but the
  // other lengths must still fit, as in .npy files: strides are computed from them.
  int64_t bytes_of_shape() {
    int64_t bits = bits_;
    bool empty = false;
    for (const int64_t length : tensor().shape) {
      if (length == 0)
        empty = true;
      else if (__builtin_mul_overflow(bits, length, &bits))
        fail(ErrorCode::overflow, label() + "shape " + to_string(tensor().shape) + " of " +
                                      tensor().type + " does not fit into 64 bits");
    }
    if (empty) return 0;
    if (bits % 8 != 0)
      fail(ErrorCode::format, label() + "expected elements that fill whole bytes, got " +
                                  tensor().type + " " + to_string(tensor().shape) + " of " +
                                  std::to_string(bits) + " bits");
    return bits / 8;
  }

  void finish_tensor() {
    if (seen_ != kAllFields)
      fail(ErrorCode::format, label() + "expected dtype, shape and data_offsets, got no " +
                                  (!(seen_ & kDtype)   ? "dtype"
                                   : !(seen_ & kShape) ? "shape"
                                                       : "data_offsets"));
    StoredTensor& t = tensor();
    if (end_ < t.offset)
      fail(ErrorCode::format,
           label() + "expected data_offsets that do not fall, got " + range_text(t.offset, end_));
    t.bytes = bytes_of_shape();
    if (end_ - t.offset != t.bytes)
      fail(ErrorCode::format, label() + "expected " + std::to_string(t.bytes) + " bytes for " +
                                  t.type + " " + to_string(t.shape) + ", got data_offsets " +
                                  range_text(t.offset, end_));
    if (end_ > data_bytes_)
      fail(ErrorCode::format, label() + "expected data_offsets within the " +
                                  std::to_string(data_bytes_) + " bytes behind the header, got " +
                                  range_text(t.offset, end_));
  }

  void check_layout() {
    // Stable, so that empty tensors of one offset stay in the order of the header.
    std::stable_sort(header_.tensors.begin(), header_.tensors.end(),
                     [](const StoredTensor& a, const StoredTensor& b) {
                       return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
                     });
    int64_t end = 0;
    const StoredTensor* before = nullptr;
    for (const StoredTensor& t : header_.tensors) {
      if (t.offset < end)
        fail(ErrorCode::format, "expected tensors side by side, got " + in_quotes(t.name) + " at " +
                                    range_text(t.offset, end_of(t)) + " over " +
                                    in_quotes(before->name) + " at " +
                                    range_text(before->offset, end));
      if (t.offset > end) no_tensor_at(end, t.offset);
      end = end_of(t);
      before = &t;
    }
    if (end != data_bytes_) no_tensor_at(end, data_bytes_);
  }

  [[noreturn]] void no_tensor_at(int64_t begin, int64_t end) const {
    fail(ErrorCode::format, "expected tensors that cover all " + std::to_string(data_bytes_) +
                                " bytes behind the header, got none at " + range_text(begin, end));
  }

  int64_t data_bytes_;
  SafetensorsHeader header_;
  Place place_ = Place::file;
  bool seen_metadata_ = false;
  unsigned seen_ = 0;  // for the tensor that is being read: the fields so far, ...
  int bits_ = 0;       // ... the bits of an element ...
  int64_t end_ = 0;    // ... and the second of its data_offsets
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes,
                                           const std::string& file) {
  return HeaderReader(file, data_bytes).parse(json);
}

}  // namespace rapt
