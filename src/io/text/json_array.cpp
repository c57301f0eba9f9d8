// JSON arrays of numbers, by the events of nlohmann-json's parser: no tree is built.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/quoted.h"
#include "io/text/number_list.h"
#include "rapt/io/number_text.h"

namespace rapt {
namespace {

using Json = nlohmann::json;

// The first number, or the first empty array, determines the rank; everything else must agree with
// it.
class ArrayEvents final : public nlohmann::json_sax<Json> {
 public:
  explicit ArrayEvents(const std::string& name) : name_(name) {}

  bool number_integer(int64_t value) override {
    element();
    numbers_.add(value);
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    element();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      numbers_.add(static_cast<double>(value));
    } else {
      numbers_.add(static_cast<int64_t>(value));
    }
    return true;
  }
  bool number_float(double value, const std::string&) override {
    element();
    numbers_.add(value);
    return true;
  }
  bool string(std::string& text) override {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    element();
    if (text == "nan") {
      numbers_.add(std::numeric_limits<double>::quiet_NaN());
    } else if (text == "inf" || text == "-inf") {
      numbers_.add(text[0] == '-' ? -kInfinity : kInfinity);
    } else {
      fail("expected numbers, got the text " + rapt::in_quotes(text));
    }
    return true;
  }
  bool boolean(bool value) override {
    element();
    numbers_.add_boolean(value);
    return true;
  }
  bool null() override { fail("expected numbers, got null"); }
  bool binary(Json::binary_t&) override { fail("expected numbers, got bytes"); }
  bool start_object(size_t) override { fail("expected numbers, got an object"); }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }

  bool start_array(size_t) override {
    if (std::ssize(counts_) == kMaxRank)
      throw Error(ErrorCode::shape, path_text(name_) + ": expected at most " +
                                        std::to_string(kMaxRank) + " dimensions, got more");
    if (std::ssize(counts_) == rank_) fail("expected a number, got an array, in " + position());
    if (!counts_.empty()) ++counts_.back();
    counts_.push_back(0);
    if (shape_.size() < counts_.size()) shape_.push_back(-1);
    return true;
  }
  bool end_array() override {
    const int64_t count = counts_.back();
    int64_t& length = shape_[counts_.size() - 1];
    if (length >= 0 && length != count)
      fail("expected " + std::to_string(length) + " elements as in the arrays before, got " +
           std::to_string(count) + ", in " + position());
    length = count;
    if (count == 0) {
      if (rank_ >= 0 && rank_ != std::ssize(counts_)) fail("an empty array among numbers");
      rank_ = std::ssize(counts_);
    }
    counts_.pop_back();
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const Json::exception& error) override {
    const bool too_large = error.id == 406;  // out_of_range: a number beyond a double
    refuse(byte, too_large ? ": a number beyond the range of f64" : "");
  }
  // Bytes count from 1.
  [[noreturn]] void refuse(size_t byte, const std::string& why) const {
    fail("not JSON from byte " + std::to_string(byte) + " on" + why);
  }

  TensorFile as_file() && {
    if (numbers_.has_numbers() && numbers_.has_booleans())
      fail("expected numbers or booleans, got both");
    return std::move(numbers_).as_file("json", name_, std::move(shape_));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::format, path_text(name_) + ": " + what);
  }
  std::string position() const { return "element " + std::to_string(numbers_.size()); }

  void element() {
    if (rank_ < 0) rank_ = std::ssize(counts_);
    if (rank_ != std::ssize(counts_))
      fail("expected arrays of one rank, got a number beside an array, in " + position());
    if (!counts_.empty()) ++counts_.back();  // a number alone is a tensor of rank 0
  }

  const std::string& name_;
  NumberList numbers_;
  std::vector<int64_t> counts_;  // of the arrays that are open
  std::vector<int64_t> shape_;   // -1: not known yet
  int64_t rank_ = -1;
};

}  // namespace

TensorFile open_json_array(const std::shared_ptr<const InputFile>& file) {
  const std::string text = text_of(*file);
  ArrayEvents events(file->name());
  // The parser treats a zero byte as the end, whatever follows it.
  if (const size_t zero = text.find('\0'); zero != std::string::npos)
    events.refuse(zero + 1, ": a zero byte; write the file again as text");
  Json::sax_parse(text, &events);
  return std::move(events).as_file();
}

}  // namespace rapt
