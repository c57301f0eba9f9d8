// InputFile: pread and mmap. POSIX.
#include "rapt/io/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "io/quoted.h"
#include "io/system_failure.h"
#include "rapt/error.h"

namespace rapt {
namespace {

// Mapped files by address. A signal handler may look at any moment, also while another thread
// changes the list: `begin` is written last and cleared first.
struct MappedRange {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<const std::byte*> end{nullptr};
  std::atomic<const char*> name{nullptr};
};
constexpr int kMappedRanges = 64;
MappedRange mapped_ranges[kMappedRanges];
std::mutex mapped_ranges_mutex;

void remember(const std::byte* begin, int64_t bytes, const char* name) {
  const std::lock_guard lock(mapped_ranges_mutex);
  for (MappedRange& range : mapped_ranges) {
    if (range.begin.load() != nullptr) continue;
    range.end = begin + bytes;
    range.name = name;
    range.begin = begin;
    return;
  }
}

void forget(const std::byte* begin) {
  const std::lock_guard lock(mapped_ranges_mutex);
  for (MappedRange& range : mapped_ranges)
    if (range.begin.load() == begin) range.begin = nullptr;
}

[[noreturn]] void fail_to_map(const std::string& name, int64_t bytes, int error) {
  const std::string what = "cannot be mapped: " + system_reason(error);
  if (error != ENOMEM) fail_on(name, what);
  throw Error(ErrorCode::memory_limit, path_text(name) + ": " + what + "; expected " +
                                           std::to_string(bytes) +
                                           " bytes of address space; raise its limit (ulimit -v)");
}

}  // namespace

const char* mapped_file_at(const void* address) noexcept {
  const auto* at = static_cast<const std::byte*>(address);
  for (const MappedRange& range : mapped_ranges) {
    const std::byte* begin = range.begin.load();
    if (begin != nullptr && at >= begin && at < range.end.load()) return range.name.load();
  }
  return nullptr;
}

InputFile::InputFile(const std::string& path) : name_(path), shown_name_(path_text(path)) {
  if (path.empty()) fail_on("''", "expected the path of a file, got an empty one");
  if (path.find('\0') != std::string::npos) fail_on(path, "a path cannot hold a zero byte");
  // Non-blocking, because opening a pipe without a writer would wait forever.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail_on(path, "cannot be opened: " + system_reason(errno));
  struct stat status = {};
  const bool known = fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    close(descriptor_);
    fail_on(path, std::string("expected a regular file, whose length is known beforehand, got ") +
                      (known && S_ISDIR(status.st_mode) ? "a folder" : "a pipe or a device"));
  }
  bytes_ = status.st_size;
}

InputFile::InputFile(std::string name, std::vector<std::byte> bytes)
    : name_(std::move(name)), held_(std::move(bytes)), bytes_(std::ssize(held_)) {}

InputFile::~InputFile() {
  if (mapped_ != nullptr) {
    forget(mapped_);
    munmap(const_cast<std::byte*>(mapped_), static_cast<size_t>(bytes_));
  }
  if (descriptor_ >= 0) close(descriptor_);
}

void InputFile::read(int64_t offset, std::byte* to, int64_t count) const {
  if (count == 0) return;  // memcpy must not get a null pointer, even for 0 bytes
  if (descriptor_ < 0) {
    std::memcpy(to, held_.data() + offset, static_cast<size_t>(count));
    return;
  }
  while (count > 0) {
    const ssize_t got = pread(descriptor_, to, static_cast<size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_on(name_, "cannot be read: " + system_reason(errno));
    if (got == 0) fail_on(name_, "became shorter while it was being read");
    to += got;
    offset += got;
    count -= got;
  }
}

std::span<const std::byte> InputFile::map() const {
  if (descriptor_ < 0) return held_;
  if (bytes_ == 0) return {};
  std::call_once(map_once_, [this] {
    void* const at =
        mmap(nullptr, static_cast<size_t>(bytes_), PROT_READ, MAP_PRIVATE, descriptor_, 0);
    if (at == MAP_FAILED) fail_to_map(name_, bytes_, errno);
    mapped_ = static_cast<const std::byte*>(at);
    remember(mapped_, bytes_, shown_name_.c_str());
  });
  return {mapped_, static_cast<size_t>(bytes_)};
}

}  // namespace rapt
