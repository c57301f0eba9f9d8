// A header as the only include of a C++11 file, the oldest C++ that may include it. This one
// includes rapt_c.h.
#include "rapt/rapt_cache_c.h"

const char* (*rapt_header_is_cpp)() = rapt_version;
