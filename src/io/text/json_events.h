#pragma once
// JSON as a stream of events, for formats of a few fixed shapes: what a format has no place for is
// refused where it stands, so that nothing is kept of it.
//
// One pass without recursion: no nesting can exhaust the stack. RFC 8259 in UTF-8, no extensions.
#include <cstdint>
#include <string>
#include <string_view>

#include "rapt/error.h"

namespace rapt {

class JsonEvents {
 public:
  // The formats that are read so need 3; what they may skip gets one more.
  static constexpr int kMaxDepth = 4;

  // `file` and `part` are for messages: "model.safetensors", "header".
  JsonEvents(const std::string& file, std::string part) : file_(file), part_(std::move(part)) {}
  virtual ~JsonEvents() = default;
  JsonEvents(const JsonEvents&) = delete;
  JsonEvents& operator=(const JsonEvents&) = delete;

  // One JSON value, blanks around it allowed. Throws Error(format, overflow), and what events
  // throw.
  void read(std::string_view json);

  // What came. A derived class takes what fits, and leaves the rest to these, which refuse it.
  virtual void open_object();
  virtual void close_object() = 0;
  virtual void open_array();
  virtual void close_array() = 0;
  virtual void key(std::string& text) = 0;
  virtual void string(std::string& text);
  virtual void integer(int64_t value);          // 0 or more
  virtual void other(const std::string& text);  // null, booleans, negative numbers, fractions

 protected:
  // What may come now, for messages: "tensor 'x': expected an object".
  virtual std::string expectation() const = 0;
  // The above, and what came.
  [[noreturn]] void refuse(const std::string& got) const;
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const;

 private:
  const std::string& file_;
  std::string part_;
};

}  // namespace rapt
