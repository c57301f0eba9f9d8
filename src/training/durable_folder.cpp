#include "training/durable_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "io/system_failure.h"

namespace rapt::training {

namespace fs = std::filesystem;

void sync_folder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_on(folder, "the folder cannot be opened: " + system_reason(errno));
  const int error = fsync(descriptor) == 0 ? 0 : errno;
  close(descriptor);
  // Some file systems have nothing to flush for a folder.
  if (error != 0 && error != EINVAL)
    fail_on(folder, "the folder cannot be flushed to the disk: " + system_reason(error));
}

void make_folder(const std::string& folder) {
  std::error_code failure;
  fs::create_directory(folder, failure);
  if (failure) fail_on(folder, "the folder cannot be made: " + failure.message());
  if (!fs::is_directory(folder, failure)) fail_on(folder, "expected a folder, or nothing yet");
}

void rename_folder(const std::string& from, const std::string& to) {
  std::error_code failure;
  fs::rename(from, to, failure);
  if (failure) fail_on(to, "the folder cannot be given its name: " + failure.message());
}

void replace_link(const std::string& folder, const std::string& link, const std::string& target) {
  const std::string next = folder + "/.link", path = folder + link;
  std::error_code failure;
  fs::remove(next, failure);  // of a process that was killed
  fs::create_symlink(target, next, failure);
  if (!failure) fs::rename(next, path, failure);
  if (failure) fail_on(path, "the link cannot be made: " + failure.message());
}

std::string link_target(const std::string& link) {
  std::error_code none;
  return fs::read_symlink(link, none).string();
}

void remove_folder(const std::string& folder) noexcept {
  std::error_code stays;
  fs::remove_all(folder, stays);
}

}  // namespace rapt::training
