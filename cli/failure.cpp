// Exceptions become one line on stderr and an exit code.
#include "failure.h"

#include <CLI/Error.hpp>
#include <cstdio>
#include <new>

#include "shown.h"

namespace rapt::cli {
namespace {

std::string hint_for(ErrorCode code, const std::string& command) {
  const bool attends = command == "rapt attend";
  switch (code) {
    case ErrorCode::dtype:
      return attends ? "--dtype f32, bf16, f16 or f64 converts the inputs" : "";
    case ErrorCode::shape:
      return attends
                 ? "shapes are query [..., q_len, d], key [..., k_len, d], value [..., k_len, d_v]"
                 : "";
    case ErrorCode::memory_limit:
      return attends ? "raise --memory-limit, or ask for fewer weights (--weights-rows, "
                       "--weights-heads)"
                     : "raise --memory-limit";
    case ErrorCode::unknown_name:
    case ErrorCode::unsupported:
      return "see '" + command + " --help'";
    default:
      return "";
  }
}

void print(const std::string& command, const std::string& message, const std::string& hint) {
  std::fprintf(stderr, "%s: %s\n", command.c_str(), shown(message).c_str());
  if (!hint.empty()) std::fprintf(stderr, "hint: %s\n", shown(hint).c_str());
}

}  // namespace

Exit exit_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::unknown_name:
    case ErrorCode::unsupported:
      return Exit::usage;
    case ErrorCode::shape:
    case ErrorCode::dtype:
    case ErrorCode::argument:
    case ErrorCode::overlap:
    case ErrorCode::overflow:
    case ErrorCode::format:
      return Exit::data;
    case ErrorCode::io:
      return Exit::io;
    case ErrorCode::memory_limit:
      return Exit::memory;
    case ErrorCode::cancelled:
      return Exit::interrupted;
  }
  return Exit::data;
}

Exit report_failure(const std::string& command) noexcept {
  try {
    throw;
  } catch (const Failure& failure) {
    const bool usage = failure.exit() == Exit::usage && failure.hint().empty();
    print(command, failure.what(), usage ? "see '" + command + " --help'" : failure.hint());
    return failure.exit();
  } catch (const Error& error) {
    print(command, error.what(), hint_for(error.code(), command));
    return exit_of(error.code());
  } catch (const CLI::Error& error) {
    print(command, error.what(), "see '" + command + " --help'");
    return Exit::usage;
  } catch (const std::bad_alloc&) {
    print(command, "the system refused the memory that this needs", "");
    return Exit::memory;
  } catch (const std::exception& error) {
    print(command, std::string("a fault of rapt itself: ") + error.what(), "please report it");
    return Exit::differs;
  }
}

}  // namespace rapt::cli
