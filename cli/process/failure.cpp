// Turns exceptions into one line on stderr and an exit code.
#include "cli/process/failure.h"

#include <CLI/Error.hpp>
#include <cstdio>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include "cli/output/printable.h"

namespace rapt::cli {
namespace {

bool begins_with_an_input(std::string_view message) {
  for (const std::string_view name : {"query ", "key ", "value "})
    if (message.starts_with(name)) return true;
  return false;
}

std::string hint_for(const Error& error, const std::string& command) {
  const bool attends = command == "rapt attend";
  switch (error.code()) {
    case ErrorCode::shape:
      return attends && begins_with_an_input(error.what())
                 ? "shapes are query [..., q_len, d], key [..., k_len, d], value [..., k_len, d_v]"
                 : "";
    case ErrorCode::dtype:
      return std::string_view(error.what()).find("expected i64") != std::string_view::npos
                 ? "'rapt convert F.npy G.npy --dtype i64' converts"
                 : "";
    case ErrorCode::memory_limit:
      // A limit of the system; the message says how to raise it.
      if (std::string_view(error.what()).find("cannot be mapped") != std::string_view::npos)
        return "";
      return attends ? "raise --memory-limit, or ask for less: --memory low, or fewer weights "
                       "(--weights-rows, --weights-heads)"
                     : "raise --memory-limit";
    case ErrorCode::unknown_name:
    case ErrorCode::unsupported:
      return "see '" + command + " --help'";
    default:
      return "";
  }
}

// CLI11 says "--output: 1 required F missing" and "--query: At Most 1 required but received 2".
std::string message_of(const CLI::ArgumentMismatch& error) {
  std::string message = error.what();
  const std::string option = message.substr(0, message.find(':'));
  if (message.find(" missing") != std::string::npos)
    return option + ": expected a value behind it, got none";
  if (message.find("At Most 1") != std::string::npos)
    return option + ": expected once, got it more than once";
  return message;
}

void print(const std::string& command, const std::string& message, const std::string& hint) {
  std::fprintf(stderr, "%s: %s\n", command.c_str(), printable(message).c_str());
  if (!hint.empty()) std::fprintf(stderr, "hint: %s\n", printable(hint).c_str());
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
    print(command, error.what(), hint_for(error, command));
    return exit_of(error.code());
  } catch (const CLI::ArgumentMismatch& error) {
    print(command, message_of(error), "see '" + command + " --help'");
    return Exit::usage;
  } catch (const CLI::Error& error) {
    print(command, error.what(), "see '" + command + " --help'");
    return Exit::usage;
  } catch (const std::filesystem::filesystem_error& error) {
    print(command, error.what(), "");
    return Exit::io;
  } catch (const std::system_error& error) {  // of fmt::print, whose text could not be written
    print(command, "cannot write to standard output: " + error.code().message(), "");
    return Exit::io;
  } catch (const std::bad_alloc&) {
    print(command, "the system refused the memory that this needs", "");
    return Exit::memory;
  } catch (const std::exception& error) {
    print(command, std::string("a fault of rapt itself: ") + error.what(), "please report it");
    return Exit::differs;
  }
}

}  // namespace rapt::cli
