#pragma once
// JSON as a stream of events, for formats with a few fixed shapes. An event that the format has no
// place for is rejected at once, so that nothing of it is kept.
//
// One pass without recursion: no nesting can exhaust the stack. RFC 8259 in UTF-8, no extensions.
#include <cstdint>
#include <string>
#include <string_view>

#include "rapt/error.h"

namespace rapt {

class JsonEvents {
 public:
  // The formats need 3 levels; a value that they skip may have one more.
  static constexpr int kMaxDepth = 4;

  // `file` and `part` are for messages: "model.safetensors", "header".
  JsonEvents(const std::string& file, std::string part) : file_(file), part_(std::move(part)) {}
  virtual ~JsonEvents() = default;
  JsonEvents(const JsonEvents&) = delete;
  JsonEvents& operator=(const JsonEvents&) = delete;

  // Reads one JSON value, with optional blanks around it. Throws Error(format, overflow), and what
  // events throw.
  void read(std::string_view json);

  // The events. A derived class overrides those that fit its format; the others reject them.
  virtual void open_object();
  virtual void close_object() = 0;
  virtual void open_array();
  virtual void close_array() = 0;
  virtual void key(std::string& text) = 0;
  virtual void string(std::string& text);
  virtual void integer(int64_t value);          // 0 or more
  virtual void other(const std::string& text);  // null, booleans, negative numbers, fractions

 protected:
  // What is expected now, for messages: "tensor 'x': expected an object".
  virtual std::string expectation() const = 0;
  // Throws an error with the expectation and what came.
  [[noreturn]] void refuse(const std::string& got) const;
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const;

 private:
  const std::string& file_;
  std::string part_;
};

}  // namespace rapt
