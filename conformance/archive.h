#pragma once
// Files of a .tar.gz, in memory.
//
// Format: POSIX.1-1988 ustar, and GNU tar's records of long names (type 'L'). Regular files and
// folders are supported; anything else is rejected. Every header's checksum is verified.
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace rapt::conformance {

using Bytes = std::vector<std::byte>;

// Inflates bytes. Throws Error(format) for data that are damaged, or larger than `most_bytes`.
Bytes gunzip(std::span<const std::byte> packed, size_t most_bytes);

// The files of an archive by path, without a leading "./". Throws Error(format).
std::map<std::string, Bytes> read_tar(std::span<const std::byte> archive);

// Both steps, for a file. Throws Error(io, format).
std::map<std::string, Bytes> read_tar_gz(const std::string& path);

}  // namespace rapt::conformance
