// What tests/peers/tokenizers_test.py compares with the package tokenizers:
//
//   tokenizer_parity encode FOLDER STRINGS IDS      the ids of each string; each must decode to
//   itself tokenizer_parity learn FOLDER TEXT VOCABULARY   byte-level BPE of a text, into FOLDER
//   tokenizer_parity characters FOLDER TEXT         the characters of a text, into FOLDER
//   tokenizer_parity copy FROM FOLDER               reads a tokenizer, and writes it
//   tokenizer_parity texts FOLDER STRINGS LISTS MOST
//
// The last one encodes each string alone and as a pair with the one before it, with the template
// and at most MOST tokens (0: any number): ids, types, begins and ends of spans are a list each.
// The fifth list holds the bytes of the decoded ids.
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

#include "rapt/text/encoding.h"
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

void write_list(std::ofstream& out, const std::vector<int64_t>& list) {
  write_raw(out, static_cast<uint32_t>(list.size()));
  for (const int64_t one : list) write_raw(out, static_cast<int32_t>(one));
}

void write_encoding(std::ofstream& out, const Tokenizer& tokenizer,
                    const rapt::text::Encoding& encoding) {
  write_list(out, encoding.ids);
  write_list(out, encoding.types);
  std::vector<int64_t> begins, ends, decoded;
  for (const rapt::text::ByteSpan& span : encoding.spans) {
    begins.push_back(span.begin);
    ends.push_back(span.end);
  }
  write_list(out, begins);
  write_list(out, ends);
  for (const char byte : tokenizer.decode(encoding.ids))
    decoded.push_back(static_cast<unsigned char>(byte));
  write_list(out, decoded);
}

void encode_with_template(const Tokenizer& tokenizer, const std::string& strings,
                          const std::string& path, int64_t most) {
  std::ofstream out(path, std::ios::binary);
  std::string_view before;
  for (size_t at = 0; at < strings.size();) {
    uint32_t length = 0;
    std::memcpy(&length, strings.data() + at, sizeof length);
    const std::string_view text(strings.data() + at + sizeof length, length);
    const rapt::text::EncodeOptions options{.most_tokens = most};
    write_encoding(out, tokenizer, encode_texts(tokenizer, text, {}, options));
    write_encoding(out, tokenizer, encode_texts(tokenizer, before, text, options));
    before = text;
    at += sizeof length + length;
  }
}

// False: the words are none of the usage.
bool run(const std::vector<std::string>& words) {
  using rapt::Overwrite;
  if (words.size() == 4 && words[0] == "encode") {
    encode(rapt::text::read_tokenizer(words[1]), bytes_of(words[2]), words[3]);
  } else if (words.size() == 5 && words[0] == "texts") {
    encode_with_template(rapt::text::read_tokenizer(words[1]), bytes_of(words[2]), words[3],
                         std::stoll(words[4]));
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
    std::fputs("usage: tokenizer_parity encode|texts|learn|characters|copy ...; see its source\n",
               stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_parity: %s\n", error.what());
  }
  return 2;
}
