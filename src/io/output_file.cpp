// OutputFile: temporary file, fsync, rename. POSIX.
#include "rapt/io/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "io/quoted.h"
#include "io/system_failure.h"
#include "rapt/error.h"
#include "rapt/io/input_file.h"

namespace rapt {
namespace {

[[noreturn]] void fail_existing(const std::string& path) {
  fail_on(path, "the file exists; ask for it to be overwritten, or choose another name");
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Short, so that it fits wherever the target's name fits.
std::string temporary_name(const std::string& folder) {
  static std::atomic<unsigned> counter{0};
  return folder + "/.rapt-" + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".tmp";
}

// Temporary files by name, in memory that never moves: a signal handler may look at any moment.
// `used` is set last and cleared first.
struct Temporary {
  std::atomic<bool> used{false};
  char path[PATH_MAX];
};
constexpr int kTemporaries = 64;
Temporary temporaries[kTemporaries];
std::mutex temporaries_mutex;

void remember(const std::string& path) {
  const std::lock_guard lock(temporaries_mutex);
  for (Temporary& temporary : temporaries) {
    if (temporary.used || path.size() >= sizeof temporary.path) continue;
    std::memcpy(temporary.path, path.c_str(), path.size() + 1);
    temporary.used = true;
    return;
  }
}

void forget(const std::string& path) {
  const std::lock_guard lock(temporaries_mutex);
  for (Temporary& temporary : temporaries)
    if (temporary.used && path == temporary.path) temporary.used = false;
}

bool names_something(const std::string& path) {
  struct stat status;
  return lstat(path.c_str(), &status) == 0;
}

}  // namespace

void remove_temporaries() noexcept {
  for (const Temporary& temporary : temporaries)
    if (temporary.used) unlink(temporary.path);
}

OutputFile::OutputFile(const std::string& path, Overwrite overwrite)
    : path_(path), target_(path), overwrite_(overwrite) {
  if (path.empty()) fail_on("''", "expected the path of a file to write, got an empty one");
  if (path.find('\0') != std::string::npos) fail_on(path, "a path cannot hold a zero byte");
  struct stat status = {};
  const bool exists = stat(path.c_str(), &status) == 0;
  const int error = exists ? 0 : errno;
  if (!exists && names_something(path)) {
    fail_on(path, "a symbolic link that cannot be followed (" + system_reason(error) +
                      "); remove it first");
  }
  if (exists) {
    if (S_ISDIR(status.st_mode)) fail_on(path, "expected a file to write, got a folder");
    if (!S_ISREG(status.st_mode)) {  // to replace a device by a file would do harm
      descriptor_ = open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (descriptor_ < 0) fail_on(path, "cannot be opened for writing: " + system_reason(errno));
      return;
    }
    if (overwrite == Overwrite::no) fail_existing(path);
    // A rename needs no right to the old file, but who made it read-only did not want it replaced.
    if (faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) {
      fail_on(path, "cannot be overwritten: " + system_reason(errno));
    }
    const std::unique_ptr<char, decltype(&std::free)> resolved(realpath(path.c_str(), nullptr),
                                                               &std::free);
    if (!resolved) fail_on(path, "cannot be resolved: " + system_reason(errno));
    target_ = resolved.get();
  } else if (error != ENOENT) {
    fail_on(path, "cannot be written: " + system_reason(error));
  } else if (path.back() == '/') {
    fail_on(path, "expected the path of a file to write, got that of a folder");
  }

  const std::string folder = folder_of(target_);
  do {  // a temporary of an earlier, killed process with the same id may still be there
    temporary_ = temporary_name(folder);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    const int open_error = errno;
    temporary_.clear();
    fail_on(path, "cannot create a file in folder '" + path_text(folder) +
                      "': " + system_reason(open_error));
  }
  remember(temporary_);
  if (exists && fchmod(descriptor_, status.st_mode & 0777) != 0) {
    const int mode_error = errno;
    close_and_remove();
    fail_on(path, "cannot keep the permissions of the file: " + system_reason(mode_error));
  }
}

OutputFile::~OutputFile() { close_and_remove(); }

void OutputFile::close_and_remove() noexcept {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  descriptor_ = -1;
  drop_temporary();
}

void OutputFile::drop_temporary() noexcept {
  if (!temporary_.empty()) forget(temporary_);
  temporary_.clear();
}

void OutputFile::write(const void* data, int64_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, from, static_cast<size_t>(bytes));
    if (written < 0) {
      if (errno == EINTR) continue;
      // EFAULT: bytes of a mapped input file are gone; the error names that file.
      const char* const lost = errno == EFAULT ? mapped_file_at(from) : nullptr;
      if (lost != nullptr) fail_on(lost, "became shorter while it was being read");
      fail_on(path_, "cannot be written: " + system_reason(errno));
    }
    from += written;
    bytes -= written;
  }
}

void OutputFile::commit() {
  const bool device = temporary_.empty();
  // Without fsync a power cut after the rename could leave an empty file under the final name.
  if (!device && fsync(descriptor_) != 0)
    fail_on(path_, "cannot be written: " + system_reason(errno));
  const int descriptor = descriptor_;
  descriptor_ = -1;
  // Network file systems report some write errors only here.
  if (close(descriptor) != 0 && errno != EINTR) {
    fail_on(path_, "cannot be written: " + system_reason(errno));
  }
  if (device) return;
  if (overwrite_ == Overwrite::no) {
    // A link never replaces: a file that another process made meanwhile survives.
    if (link(temporary_.c_str(), target_.c_str()) == 0) return close_and_remove();
    if (errno == EEXIST) fail_existing(path_);
    // Else a file system without hard links (FAT): look once more, then rename.
    if (names_something(target_)) fail_existing(path_);
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    fail_on(path_, "cannot be given its name: " + system_reason(errno));
  }
  drop_temporary();
}

}  // namespace rapt
