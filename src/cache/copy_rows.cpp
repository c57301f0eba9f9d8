#include "cache/copy_rows.h"

#include <cstring>

namespace rapt {

void copy_rows(const RowMemory& to, const RowMemory& from, int64_t count, int64_t dim,
               int64_t size) noexcept {
  const int64_t bytes = dim * size;
  if (dim != 1 && (to.element != size || from.element != size)) {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t d = 0; d < dim; ++d)
        std::memcpy(to.data + i * to.row + d * to.element,
                    from.data + i * from.row + d * from.element, static_cast<size_t>(size));
  } else if (to.row == bytes && from.row == bytes) {
    std::memcpy(to.data, from.data, static_cast<size_t>(count * bytes));
  } else {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(to.data + i * to.row, from.data + i * from.row, static_cast<size_t>(bytes));
  }
}

}  // namespace rapt
