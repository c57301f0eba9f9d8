#include "text/bpe/byte_level_bpe.h"

namespace rapt::text {
namespace {

// Longer pieces hardly come again.
constexpr size_t kLongestRemembered = 64;

}  // namespace

void ByteLevelBpe::Encoder::encode_piece(std::string_view piece) {
  const size_t begin = ids_.size();
  const bool remembered = piece.size() <= kLongestRemembered;
  if (remembered) {
    const auto [at, is_new] = met_.try_emplace(piece, Range{begin, 0});
    if (!is_new) {
      const Range range = at->second;
      for (size_t i = 0; i < range.count; ++i) ids_.push_back(ids_[range.begin + i]);
      return;
    }
  }
  const LongestMatch::Found whole = model_.options_.whole_pieces.find(piece);
  if (whole.bytes == piece.size()) {
    ids_.push_back(whole.id);
    if (remembered) met_[piece].count = 1;
    return;
  }
  merger_.clear();
  for (const char byte : piece) merger_.add(model_.byte_ids_[static_cast<uint8_t>(byte)]);
  merger_.merge(ids_);
  if (remembered) met_[piece].count = ids_.size() - begin;
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
