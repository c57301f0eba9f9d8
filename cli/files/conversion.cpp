// One loop over the elements for all pairs of types, through double or int64.
#include "cli/files/conversion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "cli/input/arguments.h"
#include "cli/process/failure.h"

namespace rapt::cli {
namespace {

constexpr DType kAll[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                          DType::i64, DType::i32, DType::u8,   DType::boolean};

template <class T>
constexpr bool kHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
template <class T>
constexpr bool kFloat = std::is_floating_point_v<T> || kHalf<T>;

// A type that holds every value of T.
template <class T>
auto widened(T value) {
  if constexpr (kHalf<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else if constexpr (kFloat<T>) {
    return static_cast<double>(value);
  } else {
    return static_cast<int64_t>(value);
  }
}

// Converts an integer to a double that rounds to the same 16-bit number. Beyond 53 bits, 16-bit
// numbers and their midpoints are multiples of 2^45, so any value between two multiples of 2^11 may
// be replaced by one double there.
double near_double(int64_t value) {
  constexpr int64_t kExact = int64_t{1} << 53, kLow = (1 << 11) - 1;
  if ((value < -kExact || value > kExact) && (value & kLow) != 0)
    value = (value & ~kLow) | (kLow + 1) / 2;
  return static_cast<double>(value);
}

// Rounds once, integers too.
template <class To, class Wide>
To rounded_to(Wide value) {
  if constexpr (!kHalf<To>) {
    return static_cast<To>(value);
  } else if constexpr (std::is_same_v<Wide, double>) {
    return To::from(value);
  } else {
    return To::from(near_double(value));
  }
}

template <class To>
To whole_of(double value) {
  if (std::isnan(value)) return 0;
  constexpr To kLeast = std::numeric_limits<To>::min(), kMost = std::numeric_limits<To>::max();
  // The largest int64_t is no double; 2^63 is the first one beyond.
  if (value >= static_cast<double>(kMost)) return kMost;
  if (value <= static_cast<double>(kLeast)) return kLeast;
  return static_cast<To>(value);
}

template <class To, class Wide>
To narrowed(Wide value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (kFloat<To>) {
    return rounded_to<To>(value);
  } else if constexpr (std::is_same_v<Wide, double>) {
    return whole_of<To>(value);
  } else {
    return static_cast<To>(
        std::clamp<int64_t>(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
  }
}

template <class To, class Wide>
bool holds(Wide value) {
  const auto back = widened(narrowed<To>(value));
  if constexpr (kFloat<To> && std::is_same_v<Wide, double>) {
    return std::isfinite(back) || !std::isfinite(value);
  } else if constexpr (kFloat<To>) {  // back is a double
    return back < 0x1p63 && static_cast<int64_t>(back) == value;
  } else if constexpr (std::is_same_v<Wide, double>) {  // back is an int64_t
    return value < 0x1p63 && static_cast<double>(back) == value;
  } else {
    return back == value;
  }
}

// Calls visit(element) in row-major order until it returns false.
template <class T, class Visit>
void walk(const TensorView& from, const Visit& visit) {
  std::vector<int64_t> index(static_cast<size_t>(from.rank), 0);
  int64_t offset = 0;
  for (int64_t left = from.count(); left > 0; --left) {
    if (!visit(static_cast<const T*>(from.data)[offset])) return;
    for (int d = from.rank - 1; d >= 0; --d) {
      offset += from.strides[d];
      if (++index[static_cast<size_t>(d)] < from.shape[d]) break;
      offset -= from.shape[d] * from.strides[d];
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

// call.operator()<T>() for the C++ type of a dtype.
template <class Call>
auto with_type(DType dtype, const Call& call) {
  switch (dtype) {
    case DType::f32:
      return call.template operator()<float>();
    case DType::f64:
      return call.template operator()<double>();
    case DType::bf16:
      return call.template operator()<BFloat16>();
    case DType::f16:
      return call.template operator()<Float16>();
    case DType::i64:
      return call.template operator()<int64_t>();
    case DType::i32:
      return call.template operator()<int32_t>();
    case DType::u8:
      return call.template operator()<uint8_t>();
    case DType::boolean:
      return call.template operator()<bool>();
  }
  throw Error(ErrorCode::dtype, "an element type without a name");
}

}  // namespace

DType parse_dtype(const std::string& option, const std::string& name) {
  std::vector<std::string_view> names;
  for (const DType dtype : kAll) {
    if (name == name_of(dtype)) return dtype;
    names.push_back(name_of(dtype));
  }
  throw usage_error(fmt::format("{}: expected {}, got '{}'", option, fmt::join(names, ", "), name),
                    did_you_mean(name, names));
}

Tensor converted(const TensorView& tensor, DType dtype) {
  Tensor result(dtype, tensor.dims());
  with_type(tensor.dtype, [&]<class From>() {
    with_type(dtype, [&]<class To>() {
      To* to = result.values<To>().data();
      walk<From>(tensor, [&](From value) {
        *to++ = narrowed<To>(widened(value));
        return true;
      });
    });
  });
  return result;
}

std::optional<Loss> loss_of(const TensorView& tensor, DType dtype) {
  std::optional<Loss> loss;
  int64_t position = 0;
  with_type(tensor.dtype, [&]<class From>() {
    with_type(dtype, [&]<class To>() {
      walk<From>(tensor, [&](From value) {
        const auto wide = widened(value);
        if (!holds<To>(wide)) loss = Loss{position, fmt::format("{}", wide)};
        ++position;
        return !loss.has_value();
      });
    });
  });
  return loss;
}

}  // namespace rapt::cli
