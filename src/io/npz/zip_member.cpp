// Members of ZIP archives: stored ones are copied, deflated ones inflated by zlib.
#include "io/npz/zip_member.h"

#include <algorithm>
#include <new>

#include "io/quoted.h"
#include "rapt/error.h"

namespace rapt {
namespace {

// With this size the time of a system call per chunk is negligible beside inflating it.
constexpr int64_t kPackedChunkBytes = int64_t{1} << 16;
// zlib counts the free bytes of its output in 32 bits.
constexpr int64_t kMostOutput = int64_t{1} << 30;

[[noreturn]] void fail_member(const InputFile& file, const ZipMember& member,
                              const std::string& what) {
  throw Error(ErrorCode::format, path_text(file.name()) + ": " + in_quotes(member.name) + ": " +
                                     what + "; the archive is damaged, copy or write it again");
}

std::string hexadecimal(uint32_t value) {
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[value >> shift & 15];
  return out;
}

}  // namespace

void check_crc(const InputFile& file, const ZipMember& member, uint32_t crc) {
  if (crc != member.crc)
    fail_member(file, member,
                "expected CRC-32 " + hexadecimal(member.crc) + ", got " + hexadecimal(crc));
}

ZipMemberReader::ZipMemberReader(const InputFile& file, const ZipMember& member)
    : file_(file), member_(member) {
  if (!member.deflated) return;
  chunk_.resize(static_cast<size_t>(std::min(kPackedChunkBytes, member.stored_bytes)));
  constexpr int kRawWindow = -15;  // neither zlib's header nor gzip's
  if (inflateInit2(&inflate_, kRawWindow) != Z_OK) throw std::bad_alloc();
}

ZipMemberReader::~ZipMemberReader() {
  if (member_.deflated) inflateEnd(&inflate_);
}

void ZipMemberReader::fail(const std::string& what) const { fail_member(file_, member_, what); }

// Inflates up to `count` bytes; returns fewer only at the end of the deflated data.
int64_t ZipMemberReader::inflate_to(std::byte* to, int64_t count) {
  int64_t done = 0;
  while (done < count && !ended_) {
    if (inflate_.avail_in == 0) {
      const int64_t bytes = std::min(std::ssize(chunk_), member_.stored_bytes - taken_);
      if (bytes == 0)
        fail("its deflated data do not end within " + std::to_string(member_.stored_bytes) +
             " bytes");
      file_.read(member_.offset + taken_, chunk_.data(), bytes);
      taken_ += bytes;
      inflate_.next_in = reinterpret_cast<Bytef*>(chunk_.data());
      inflate_.avail_in = static_cast<uInt>(bytes);
    }
    const int64_t room = std::min(count - done, kMostOutput);
    inflate_.next_out = reinterpret_cast<Bytef*>(to + done);
    inflate_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&inflate_, Z_NO_FLUSH);
    done += room - int64_t{inflate_.avail_out};
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_STREAM_END) ended_ = true;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      fail(std::string("its deflated data are wrong (") +
           (inflate_.msg != nullptr ? inflate_.msg : "no reason given") + ")");
  }
  return done;
}

void ZipMemberReader::read(std::byte* to, int64_t count) {
  if (count == 0) return;  // zlib treats a null pointer as a request for a new CRC
  if (member_.deflated) {
    const int64_t got = inflate_to(to, count);
    if (got < count)
      fail("expected " + std::to_string(member_.bytes) + " bytes inflated, got " +
           std::to_string(inflate_.total_out));
  } else {
    file_.read(member_.offset + taken_, to, count);
    taken_ += count;
  }
  crc_ = static_cast<uint32_t>(
      crc32_z(crc_, reinterpret_cast<const Bytef*>(to), static_cast<z_size_t>(count)));
}

void ZipMemberReader::finish() {
  if (member_.deflated) {
    std::byte more;
    if (inflate_to(&more, 1) > 0)
      fail("expected " + std::to_string(member_.bytes) + " bytes inflated, got more");
    const int64_t left = member_.stored_bytes - taken_ + int64_t{inflate_.avail_in};
    if (left > 0) fail("its deflated data end " + std::to_string(left) + " bytes early");
  }
  check_crc(file_, member_, crc_);
}

}  // namespace rapt
