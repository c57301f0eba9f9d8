#pragma once
// A file that appears whole or not at all.
//
// The bytes go to a temporary file in the same folder; commit() flushes it to the disk and renames
// it. Whatever ends earlier (an exception, a full disk) removes the temporary and leaves an
// existing file as it was. Devices and pipes (/dev/stdout, /dev/null) are written directly: there
// is nothing to replace.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace rapt {

// Where the bytes of a file go, in order: OutputFile::write, standard output, a buffer. May throw.
using WriteBytes = std::function<void(const void* data, int64_t bytes)>;

enum class Overwrite : uint8_t { no, yes };  // may a file that exists be replaced?

class OutputFile {
 public:
  // Checks that the path can be written, so that a mistake shows before any computation.
  // Throws Error(io): no such folder, not writable, a folder, or an existing file and
  // Overwrite::no. A symbolic link is followed: the file it names is replaced, the link stays.
  OutputFile(const std::string& path, Overwrite overwrite);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Throws Error(io), for example when the disk is full, or when `data` is of a mapped file that
  // has become shorter.
  void write(const void* data, int64_t bytes);

  // Makes the file appear under its name. Throws Error(io).
  void commit();

 private:
  void close_and_remove() noexcept;

  void drop_temporary() noexcept;

  std::string path_;       // as the caller named it, for messages
  std::string target_;     // with symbolic links followed
  std::string temporary_;  // empty: a device, or nothing left to remove
  Overwrite overwrite_;
  int descriptor_ = -1;
};

// Removes the temporary files of all OutputFiles of the process (the 64 that were opened first),
// for a handler of a signal that ends it: async-signal-safe.
void remove_temporaries() noexcept;

}  // namespace rapt
