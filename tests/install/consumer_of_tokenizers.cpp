// A user's program with tokenizers: learns one, writes it and reads it back.
#include <cstdio>
#include <string>
#include <vector>

#include "rapt/text/learn.h"
#include "rapt/text/tokenizer_file.h"

int main() {
  const std::string text = "the cat saw the dog";
  const rapt::text::Tokenizer learned = rapt::text::learn_byte_level_bpe(text, 260);
  rapt::text::write_tokenizer(learned, ".", rapt::Overwrite::yes);
  const rapt::text::Tokenizer read = rapt::text::read_tokenizer(".");
  const std::vector<int64_t> ids = read.encode(text);
  const bool right = ids == learned.encode(text) && read.decode(ids) == text;
  std::printf("%zu tokens, %s\n", ids.size(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
