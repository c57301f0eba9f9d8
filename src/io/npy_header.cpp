// The header of a .npy file: parsed by hand, checked against the file's length, and formatted.
#include "io/npy_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

#include "io/quoted.h"

namespace rapt {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMagicAndVersion = 8;
constexpr const char* kSupported = "float32, float64, float16, int32, int64, uint8 and bool";

struct NpyType {
  std::string_view code;  // kind and bytes per element, without the byte order
  DType dtype;
};
constexpr std::array<NpyType, 8> kTypes = {{{"f4", DType::f32},
                                            {"f8", DType::f64},
                                            {"f2", DType::f16},
                                            {"i4", DType::i32},
                                            {"i8", DType::i64},
                                            {"u1", DType::u8},
                                            {"b1", DType::boolean},
                                            {"V2", DType::bf16}}};

[[noreturn]] void fail(ErrorCode code, const std::string& name, const std::string& what) {
  throw Error(code, path_text(name) + ": " + what);
}

// The three values of the dict, in Python's own terms.
struct Fields {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// A recursive-descent parser for the one literal that NumPy writes. Grammar, blanks anywhere:
//   {'descr': STRING, 'fortran_order': True|False, 'shape': (INT, ...), }
// Keys in any order, each exactly once; the last comma of the dict may be missing.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Fields parse() {
    Fields fields;
    expect('{');
    while (!accept('}')) {
      entry(fields);
      if (accept('}')) break;
      expect(',');
    }
    skip_blanks();
    if (at_ != text_.size()) bad("expected only blanks after the dict, got " + rest());
    if (!fields.descr) missing("descr");
    if (!fields.fortran_order) missing("fortran_order");
    if (!fields.shape) missing("shape");
    return fields;
  }

 private:
  [[noreturn]] void bad(const std::string& what) const {
    fail(ErrorCode::format, name_,
         "malformed .npy header, byte " + std::to_string(at_) + ": " + what +
             "; write the file again with numpy.save");
  }
  [[noreturn]] void missing(const char* key) const {
    bad(std::string("expected the keys 'descr', 'fortran_order' and 'shape', got no '") + key +
        "'");
  }

  std::string rest() const {
    return at_ == text_.size() ? "the end of the header" : in_quotes(text_.substr(at_));
  }
  void skip_blanks() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_] != '\0') ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(std::string("expected '") + c + "', got " + rest());
  }

  void entry(Fields& fields) {
    const std::string key = string("a key");
    expect(':');
    if (key == "descr") {
      set(fields.descr, key, descr());
    } else if (key == "fortran_order") {
      set(fields.fortran_order, key, boolean());
    } else if (key == "shape") {
      set(fields.shape, key, shape());
    } else {
      bad("expected the keys 'descr', 'fortran_order' and 'shape', got " + in_quotes(key));
    }
  }

  template <class T>
  void set(std::optional<T>& field, const std::string& key, T value) {
    if (field) bad("expected each key once, got " + in_quotes(key) + " twice");
    field = std::move(value);
  }

  std::string string(const char* what) {
    skip_blanks();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      bad(std::string("expected ") + what + " in quotes, got " + rest());
    }
    const char quote = text_[at_];
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) bad("a string without its closing quote: " + rest());
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    if (value.find('\\') != std::string_view::npos) bad("an escape in a string: " + rest());
    at_ = end + 1;
    return std::string(value);
  }

  std::string descr() {
    skip_blanks();
    const bool fields = at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(');
    return fields ? list_of_fields() : string("an element type");
  }

  // The text of a list of names and types. It is not parsed: only its end is searched.
  std::string list_of_fields() {
    const size_t begin = at_;
    int depth = 0;
    do {
      if (at_ == text_.size()) bad("a list without its end");
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        string("a name");
        continue;
      }
      if (c == '[' || c == '(') ++depth;
      if (c == ']' || c == ')') --depth;
      ++at_;
    } while (depth > 0);
    return std::string(text_.substr(begin, at_ - begin));
  }

  bool boolean() {
    skip_blanks();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;  // a letter after it fails where ',' or '}' is expected
      }
    }
    bad("expected True or False, got " + rest());
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> lengths;
    expect('(');
    while (!accept(')')) {
      if (lengths.size() == kMaxRank) {
        fail(ErrorCode::shape, name_,
             "expected at most " + std::to_string(kMaxRank) + " dimensions, got more");
      }
      lengths.push_back(length());
      if (accept(',')) continue;
      if (lengths.size() == 1) bad("expected a tuple '(n,)', got " + rest());
      expect(')');
      break;
    }
    return lengths;
  }

  int64_t length() {
    skip_blanks();
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value)) {
        fail(ErrorCode::overflow, name_,
             "a dimension of " + in_quotes(text_.substr(begin, kQuotedLength)) +
                 " does not fit into 64 bits; the file is damaged");
      }
    }
    if (at_ == begin) bad("expected a length of 0 or more, got " + rest());
    if (at_ - begin > 1 && text_[begin] == '0') {
      bad("expected a length without leading zeros, got " + in_quotes(text_.substr(begin)));
    }
    return value;
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

// The most characters of a type that are kept, because a small archive can inflate to very many
// long lists of fields.
constexpr size_t kMaxTypeText = 256;

// Leaves the dtype absent for types that rapt does not read.
void set_type(StoredTensor& header, const std::string& descr, NpyV2 v2) {
  header.type = descr.substr(0, kMaxTypeText);
  for (const NpyType& type : kTypes) {
    if (descr.size() != 3 || descr.substr(1) != type.code) continue;
    if (type.dtype == DType::bf16 && v2 == NpyV2::refuse) return;
    const bool one_byte = size_of(type.dtype) == 1;
    // bf16 is stored as two bytes without a type, for which NumPy writes no byte order: it is that
    // of the machine.
    const bool any_order = one_byte || type.dtype == DType::bf16;
    if (descr[0] != '<' && descr[0] != '>' && !(descr[0] == '|' && any_order)) return;
    header.dtype = type.dtype;
    if (!one_byte && descr[0] != '|')
      header.byte_order = descr[0] == '<' ? std::endian::little : std::endian::big;
    return;
  }
}

// A zero length makes an empty array, but the others must still fit, as in NumPy: strides are
// computed from them.
int64_t checked_bytes(const StoredTensor& header, const std::string& name) {
  int64_t product = header.dtype ? size_of(*header.dtype) : 1;
  bool empty = false;
  for (const int64_t length : header.shape) {
    if (length == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, length, &product)) {
      fail(ErrorCode::overflow, name,
           "shape " + to_string(header.shape) + " does not fit into 64 bits; the file is damaged");
    }
  }
  return empty ? 0 : product;
}

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

std::string bytes_text(int64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

}  // namespace

int64_t npy_prefix_bytes(std::span<const std::byte> start, int64_t file_bytes) {
  const auto known = std::min(file_bytes, kNpyHeaderLengthBytes);
  if (known < kNpyHeaderLengthBytes) return known;
  const bool short_length = std::to_integer<int>(start[6]) == 1;
  const uint64_t header = little_endian(start.subspan(kMagicAndVersion, short_length ? 2 : 4));
  if (header > kMaxNpyHeader) return known;  // parsing reports the error
  const int64_t whole = kMagicAndVersion + (short_length ? 2 : 4) + static_cast<int64_t>(header);
  return std::clamp(whole, known, file_bytes);
}

void refuse_npy_type(const std::string& type, const std::string& name) {
  const std::string reads = std::string("rapt reads ") + kSupported + ": ";
  if (!type.empty() && (type[0] == '[' || type[0] == '('))
    fail(ErrorCode::dtype, name,
         "elements with fields (a structured dtype) are not read; " + reads +
             "save one field, a['name'], by itself");
  std::string what = "element type " + in_quotes(type);
  if (type.size() == 3 && type.substr(1) == "V2")
    fail(ErrorCode::dtype, name,
         what +
             " is 2 bytes without a type, as NumPy saves bfloat16; it is read as that only "
             "where it is asked for");
  if (type.find('O') != std::string::npos) {
    what += " (Python objects) is a pickle, which rapt never reads";
  } else {
    what += " is not supported";
  }
  fail(ErrorCode::dtype, name, what + "; " + reads + "convert it, for example a.astype('float32')");
}

StoredTensor list_npy_header(std::span<const std::byte> prefix, int64_t file_bytes,
                             const std::string& name, NpyV2 v2) {
  const std::string_view text(reinterpret_cast<const char*>(prefix.data()), prefix.size());
  const auto cut = [&](const std::string& where) {
    fail(ErrorCode::format, name,
         "the file ends after " + bytes_text(file_bytes) + ", " + where +
             "; it is cut short, copy or write it again");
  };
  if (text.empty()) fail(ErrorCode::format, name, "expected a .npy file, got an empty file");
  const std::string_view start = text.substr(0, kMagic.size());
  if (start != kMagic.substr(0, start.size())) {
    fail(ErrorCode::format, name,
         "expected a .npy file, which begins with '\\x93NUMPY', got one that begins with " +
             in_quotes(start) + "; write it with numpy.save");
  }
  if (std::ssize(text) < kMagicAndVersion) cut("before its version number");
  const int major = std::to_integer<int>(prefix[6]), minor = std::to_integer<int>(prefix[7]);
  if (major < 1 || major > 3 || minor != 0) {
    fail(ErrorCode::format, name,
         "expected .npy version 1.0, 2.0 or 3.0, got " + std::to_string(major) + "." +
             std::to_string(minor));
  }
  const int64_t length_bytes = major == 1 ? 2 : 4;
  const int64_t header_offset = kMagicAndVersion + length_bytes;
  if (std::ssize(text) < header_offset) cut("before its header length");
  const auto header_bytes =
      static_cast<int64_t>(little_endian(prefix.subspan(kMagicAndVersion, length_bytes)));
  if (header_bytes > kMaxNpyHeader) {
    fail(ErrorCode::format, name,
         "expected a header of at most " + bytes_text(kMaxNpyHeader) + ", got one of " +
             bytes_text(header_bytes) + "; the file is damaged");
  }
  if (header_bytes > std::ssize(text) - header_offset) {
    cut("but its header of " + bytes_text(header_bytes) + " begins at byte " +
        std::to_string(header_offset));
  }

  const Fields fields = HeaderParser(text.substr(header_offset, header_bytes), name).parse();
  StoredTensor header;
  set_type(header, *fields.descr, v2);
  header.fortran_order = *fields.fortran_order;
  header.shape = *fields.shape;
  header.offset = header_offset + header_bytes;
  header.bytes = checked_bytes(header, name);
  const int64_t rest = file_bytes - header.offset;
  if (!header.dtype) {
    header.bytes = rest;
  } else if (rest != header.bytes) {
    fail(ErrorCode::format, name,
         "expected " + bytes_text(header.bytes) + " of data for " +
             std::string(name_of(*header.dtype)) + " " + to_string(header.shape) + ", got " +
             bytes_text(rest) +
             (rest < header.bytes ? "; the file is cut short, copy or write it again"
                                  : "; something follows the array, write it again"));
  }
  return header;
}

StoredTensor parse_npy_header(std::span<const std::byte> prefix, int64_t file_bytes,
                              const std::string& name, NpyV2 v2) {
  StoredTensor header = list_npy_header(prefix, file_bytes, name, v2);
  if (!header.dtype) refuse_npy_type(header.type, name);
  return header;
}

std::string npy_header_for(DType dtype, Shape shape, NpyV2 v2) {
  std::string_view code;
  for (const NpyType& type : kTypes) {
    if (type.dtype == dtype && (dtype != DType::bf16 || v2 == NpyV2::bf16)) code = type.code;
  }
  if (code.empty()) {
    throw Error(ErrorCode::dtype, std::string(".npy has no name for ") + name_of(dtype) +
                                      "; rapt writes " + kSupported +
                                      ": convert it to f32, or write .safetensors");
  }
  const char order = size_of(dtype) == 1                          ? '|'
                     : std::endian::native == std::endian::little ? '<'
                                                                  : '>';
  std::string dict = std::string("{'descr': '") + order + std::string(code) +
                     "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < shape.size(); ++i) {
    dict += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  dict += shape.size() == 1 ? ",), }" : "), }";
  // NumPy leaves room for the first length to grow to 21 digits in place, ...
  constexpr size_t kGrowthDigits = 21;
  if (!shape.empty()) dict.append(kGrowthDigits - std::to_string(shape[0]).size(), ' ');
  // ... then pads so that the data begin at a multiple of 64; by 64 more if they would already.
  constexpr size_t kAlignment = 64, kStart = 10;  // magic, version, header length
  dict.append(kAlignment - (kStart + dict.size() + 1) % kAlignment, ' ');
  dict += '\n';

  std::string header(kMagic);
  header +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 255), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

}  // namespace rapt
