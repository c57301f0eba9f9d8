#pragma once
// Standard input, output and error of a process that was started without some of them (`>&-`).

namespace rapt::cli {

// Occupies the descriptors 0 to 2 where they are free. Otherwise the next opened file would get
// them, and output for a closed stream would go into a tensor file. Reading and writing them fails
// as on a closed stream.
void reserve_standard_streams() noexcept;

}  // namespace rapt::cli
