#include "text/bpe/byte_level_bpe.h"

namespace rapt::text {
void ByteLevelBpe::Encoder::encode_piece(std::string_view piece) {
  const size_t begin = ids_.size();
  if (const auto* const range = met_.find(piece)) {
    for (size_t i = 0; i < range->count; ++i) ids_.push_back(ids_[range->begin + i]);
    return;
  }
  const LongestMatch::Found whole = model_.options_.whole_pieces.find(piece);
  if (whole.bytes == piece.size()) {
    ids_.push_back(whole.id);
    return met_.add(piece, {begin, 1});
  }
  merger_.clear();
  for (const char byte : piece) merger_.add(model_.byte_ids_[static_cast<uint8_t>(byte)]);
  merger_.merge(ids_);
  met_.add(piece, {begin, ids_.size() - begin});
}

void ByteLevelBpe::Encoder::encode(std::string_view text, size_t begin, size_t end) {
  std::string_view rest = text.substr(begin, end - begin);
  while (!rest.empty()) {
    const size_t bytes = first_piece(rest, model_.options_.pattern);
    encode_piece(rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
}

}  // namespace rapt::text
