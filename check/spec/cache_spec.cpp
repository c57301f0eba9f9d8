#include "check/spec/cache_spec.h"

namespace check {

std::string to_string(const CacheSpec& cache) {
  if (cache.page_keys == 0) return cache.circular ? "circular" : "linear";
  return "pages(" + std::to_string(cache.page_keys) + (cache.circular ? ",circular" : "") +
         (cache.shared ? ",shared" : "") + ")";
}

}  // namespace check
