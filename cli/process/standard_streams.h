#pragma once
// Standard input, output and error of a process that was started without some of them (`>&-`).

namespace rapt::cli {

// Takes the numbers 0 to 2 where they are free, or the next file that is opened would get them, and
// what is meant for a closed stream would go into a file of tensors. What is taken cannot be used:
// reading and writing fail as on a closed stream.
void reserve_standard_streams() noexcept;

}  // namespace rapt::cli
