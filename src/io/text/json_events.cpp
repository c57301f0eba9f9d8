// Events of nlohmann's SAX parser, with its gaps closed: depth, zero bytes, numbers beyond 64 bits.
#include "io/text/json_events.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/quoted.h"

namespace rapt {
namespace {

// rapt::quoted has its full name below, because the JSON library includes std::quoted.

using Json = nlohmann::json;

class Sax final : public nlohmann::json_sax<Json> {
 public:
  // `fail`: the protected function of the events.
  using Fail = std::function<void(ErrorCode, const std::string&)>;
  Sax(JsonEvents& events, Fail fail) : events_(events), fail_(std::move(fail)) {}

  bool null() override { return other("null"); }
  bool boolean(bool value) override { return other(value ? "true" : "false"); }
  // Integers with a sign, "-0" included.
  bool number_integer(number_integer_t value) override {
    return other(value == 0 ? "-0" : std::to_string(value));
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (value > kMost) too_large(std::to_string(value));
    events_.integer(static_cast<int64_t>(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override {
    const bool integer =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (integer) too_large(text);
    return other(text);
  }
  bool string(string_t& text) override {
    events_.string(text);
    return true;
  }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override {
    enter();
    events_.open_object();
    return true;
  }
  bool key(string_t& text) override {
    events_.key(text);
    return true;
  }
  bool end_object() override {
    --depth_;
    events_.close_object();
    return true;
  }
  bool start_array(std::size_t) override {
    enter();
    events_.open_array();
    return true;
  }
  bool end_array() override {
    --depth_;
    events_.close_array();
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception&) override {
    fail_(ErrorCode::format, "expected JSON, got " + rapt::in_quotes(token) + " at its byte " +
                                 std::to_string(position));
    return false;
  }

 private:
  bool other(const std::string& text) {
    events_.other(text);
    return true;
  }
  void enter() {
    if (++depth_ > JsonEvents::kMaxDepth)
      fail_(ErrorCode::format, "expected objects and arrays at most " +
                                   std::to_string(JsonEvents::kMaxDepth) + " deep, got more");
  }
  void too_large(const std::string& digits) {
    fail_(ErrorCode::overflow,
          "the number " + rapt::in_quotes(digits) + " does not fit into 64 bits");
  }

  JsonEvents& events_;
  Fail fail_;
  int depth_ = 0;
};

}  // namespace

void JsonEvents::read(std::string_view json) {
  // The parser treats a zero byte as the end, whatever follows it.
  const size_t zero = json.find('\0');
  if (zero != std::string_view::npos)
    fail(ErrorCode::format, "expected JSON, got a zero byte at its byte " + std::to_string(zero));
  Sax sax(*this, [this](ErrorCode code, const std::string& what) { fail(code, what); });
  Json::sax_parse(json.begin(), json.end(), &sax);
}

void JsonEvents::open_object() { refuse("an object"); }
void JsonEvents::open_array() { refuse("an array"); }
void JsonEvents::string(std::string& text) { refuse("the text " + rapt::in_quotes(text)); }
void JsonEvents::integer(int64_t value) { refuse(std::to_string(value)); }
void JsonEvents::other(const std::string& text) {
  refuse(text.size() > kQuotedLength ? text.substr(0, kQuotedLength) + "..." : text);
}

void JsonEvents::refuse(const std::string& got) const {
  fail(ErrorCode::format, expectation() + ", got " + got);
}

void JsonEvents::fail(ErrorCode code, const std::string& what) const {
  throw Error(code, path_text(file_) + ": malformed " + part_ + ": " + what +
                        "; the file is damaged, copy or write it again");
}

}  // namespace rapt
