// What tests/peers/tokenizers_test.py compares with the package tokenizers:
//
//   tokenizer_parity encode FOLDER STRINGS IDS      the ids of each string; each must decode to
//   itself tokenizer_parity learn FOLDER TEXT VOCABULARY   byte-level BPE of a text, into FOLDER
//   tokenizer_parity characters FOLDER TEXT         the characters of a text, into FOLDER
//   tokenizer_parity copy FROM FOLDER               reads a tokenizer, and writes it
//
// STRINGS and IDS are lists of lists: a length (uint32, little-endian) and as many elements, bytes
// or int32.
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "rapt/text/learn.h"
#include "rapt/text/stream_decoder.h"
#include "rapt/text/tokenizer_file.h"

namespace {

using rapt::text::Tokenizer;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

template <class T>
void write_raw(std::ofstream& out, T value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof value);
}

void check_round_trip(const Tokenizer& tokenizer, std::string_view text,
                      const std::vector<int64_t>& ids) {
  std::string streamed;
  rapt::text::StreamDecoder decoder(tokenizer);
  for (const int64_t id : ids) streamed += decoder.next(id);
  streamed += decoder.finish();
  if (tokenizer.decode(ids) != text || streamed != text)
    throw std::runtime_error("not decoded to itself: " + std::string(text));
}

void encode(const Tokenizer& tokenizer, const std::string& strings, const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  for (size_t at = 0; at < strings.size();) {
    uint32_t length = 0;
    std::memcpy(&length, strings.data() + at, sizeof length);
    const std::string_view text(strings.data() + at + sizeof length, length);
    const std::vector<int64_t> ids = tokenizer.encode(text);
    check_round_trip(tokenizer, text, ids);
    write_raw(out, static_cast<uint32_t>(ids.size()));
    for (const int64_t id : ids) write_raw(out, static_cast<int32_t>(id));
    at += sizeof length + length;
  }
}

// False: the words are none of the usage.
bool run(const std::vector<std::string>& words) {
  using rapt::Overwrite;
  if (words.size() == 4 && words[0] == "encode") {
    encode(rapt::text::read_tokenizer(words[1]), bytes_of(words[2]), words[3]);
  } else if (words.size() == 4 && words[0] == "learn") {
    write_tokenizer(rapt::text::learn_byte_level_bpe(bytes_of(words[2]), std::stoll(words[3])),
                    words[1], Overwrite::yes);
  } else if (words.size() == 3 && words[0] == "characters") {
    write_tokenizer(rapt::text::learn_characters(bytes_of(words[2])), words[1], Overwrite::yes);
  } else if (words.size() == 3 && words[0] == "copy") {
    write_tokenizer(rapt::text::read_tokenizer(words[1]), words[2], Overwrite::yes);
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (run({words + 1, words + count})) return 0;
    std::fputs("usage: tokenizer_parity encode|learn|characters|copy ...; see its source\n",
               stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_parity: %s\n", error.what());
  }
  return 2;
}
