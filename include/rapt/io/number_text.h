#pragma once
// Numbers as text, for small tensors: .csv files of one matrix, and nested JSON arrays of any rank.
//
// CSV: a line per row, commas between numbers, blanks around them; no titles, no quotes. Rows have
// the same length. RFC 4180 without its text fields.
// JSON: RFC 8259; arrays of one rank and shape. As JSON has no infinities, "inf", "-inf" and "nan"
// are strings.
//
// What is read is i64 if all numbers are whole and fit, bool if all are true or false (JSON), else
// f64. Floats are written with the fewest digits that give the same number again, and with a
// fraction or an exponent, so that they are read as floats.
#include <cstdint>
#include <memory>

#include "rapt/io/output_file.h"
#include "rapt/io/tensor_file.h"

namespace rapt {

// For more numbers text is slow, large and no help.
inline constexpr int64_t kMaxNumberText = int64_t{1} << 28;

enum class TextKind : uint8_t { none, csv, json };  // of text with numbers

// .csv by the name's ending, since numbers do not tell; JSON by its first character, '['. Throws
// Error(io).
TextKind text_kind_of(const InputFile& file);

// The memory that reading it takes at most.
int64_t memory_of_text(const InputFile& file) noexcept;

// One tensor without a name, in memory. Throws Error(format) that names the line or the byte,
// Error(shape) for more than kMaxRank dimensions, Error(io).
TensorFile open_csv(const std::shared_ptr<const InputFile>& file);
TensorFile open_json_array(const std::shared_ptr<const InputFile>& file);

// Rank 0, 1 (a column) or 2. Throws Error(shape, argument) before anything is written.
void write_csv(const WriteBytes& write, const TensorView& view);
// Any rank. Throws Error(argument) before anything is written.
void write_json_array(const WriteBytes& write, const TensorView& view);

}  // namespace rapt
