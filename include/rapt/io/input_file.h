#pragma once
// A file to read: a regular file, whose bytes can be read at any offset or mapped, or what came
// through a pipe, in memory.
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace rapt {

class InputFile {
 public:
  // Opens a regular file. Throws Error(io): it cannot be opened, or its length is not known
  // beforehand (a pipe, a device, a folder).
  explicit InputFile(const std::string& path);
  // Bytes that are there already; `name` stands for the path in messages.
  InputFile(std::string name, std::vector<std::byte> bytes);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& name() const noexcept { return name_; }
  int64_t bytes() const noexcept { return bytes_; }

  // Bytes [offset, offset + count), which the caller has checked to be within bytes(). Throws
  // Error(io), also for a file that has become shorter.
  void read(int64_t offset, std::byte* to, int64_t count) const;

  // All bytes; they are valid while the InputFile exists. The first call maps a regular file, so
  // that memory is used only for pages that are touched, and can be reclaimed when it is scarce.
  // Touching bytes of a file that another process has shortened raises SIGBUS. Throws
  // Error(memory_limit) if the address space has no room for the file, Error(io) for other
  // failures.
  std::span<const std::byte> map() const;

 private:
  std::string name_;
  std::string shown_name_;  // of a regular file, as messages have it (plain_text.h)
  std::vector<std::byte> held_;
  int descriptor_ = -1;  // -1: the bytes are held
  int64_t bytes_ = 0;
  mutable std::once_flag map_once_;
  mutable const std::byte* mapped_ = nullptr;
};

// The name of the mapped file that an address lies in, as plain_text() makes it, for a handler of
// SIGBUS: async-signal-safe. Null: none that is known (the 64 files that were mapped first are).
const char* mapped_file_at(const void* address) noexcept;

}  // namespace rapt
