#pragma once
// The only exception type of the library. Its message says what was expected, what came, and what
// to do.
//
// Everything is checked once, at the start of a call, before memory is allocated and before an
// output is written. The core never prints, aborts or exits; kernels check nothing.
#include <stdexcept>
#include <string>
#include <string_view>

namespace rapt {

enum class ErrorCode {  // the kind of error; determines exit codes and the status in C
  shape,                // ranks, lengths or head counts do not fit together
  dtype,                // an element type that this call does not accept
  argument,      // a value out of range: NaN scale, negative window, null pointer with elements
  overlap,       // an output shares memory with an input, or with itself
  overflow,      // a size or an offset that does not fit into 64 bits
  unknown_name,  // no mask, score, normaliser, instruction set or parameter of that name
  unsupported,   // valid, but this call, this machine or this build cannot do it
  memory_limit,  // more memory than the caller allows
  format,        // a file whose contents do not match its format
  io,            // the operating system refused to open, read or write
  cancelled,     // the caller's cancel token was set; outputs are invalid
};

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, std::string_view argument = {})
      : std::runtime_error(message), code_(code) {
    argument.copy(argument_, sizeof argument_ - 1);
  }
  ErrorCode code() const noexcept { return code_; }

  // The argument that was refused, so that a program can point to its own name of it: a tensor or
  // a member of the options or of the request, as it is called in C++ ("key", "rotary", "top_k",
  // "d_output"). "" for errors of no single argument. Of tensors that belong to an option, such as
  // those of masks, the option. Valid as long as the error; names are cut after 31 bytes.
  const char* argument() const noexcept { return argument_; }

 private:
  ErrorCode code_;
  char argument_[32] = "";  // an array, because copying an exception must not throw
};

}  // namespace rapt
