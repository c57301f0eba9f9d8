#pragma once
// A temporary folder per test, and functions that read and write whole files.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "rapt/error.h"

namespace rapt::test {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rapt-io-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    folder_ = name;
  }
  ~ScratchFolder() { std::filesystem::remove_all(folder_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return folder_; }
  std::string operator/(const std::string& name) const { return folder_ + "/" + name; }
  int64_t entries() const {
    return std::distance(std::filesystem::directory_iterator(folder_), {});
  }

 private:
  std::string folder_;
};

// Drops the capabilities of root while the object lives, so that file permissions apply. Changing
// to another user might fail, because a container may have none.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() {
    if (syscall(SYS_capget, &header_, held_) != 0) throw std::runtime_error("no capabilities");
    __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
    std::copy(std::begin(held_), std::end(held_), none);
    for (__user_cap_data_struct& part : none) part.effective = 0;
    set(none);
  }
  ~AsOrdinaryUser() { set(held_); }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;

 private:
  void set(const __user_cap_data_struct* capabilities) {
    if (syscall(SYS_capset, &header_, capabilities) != 0) std::abort();
  }

  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held_[_LINUX_CAPABILITY_U32S_3] = {};
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void make_file(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Runs `call` and expects an Error with this code, on one line that contains all of `parts`.
template <class Call, class... Parts>
void expect_error(ErrorCode code, Call call, const Parts&... parts) {
  try {
    call();
  } catch (const Error& e) {
    const std::string message = e.what();
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code)) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& part : {std::string(parts)...}) {
      EXPECT_NE(message.find(part), std::string::npos) << message << "\n  lacks: " << part;
    }
    return;
  }
  ADD_FAILURE() << "expected an Error, got none";
}

}  // namespace rapt::test
