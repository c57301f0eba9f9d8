// The header as the only include of a C++11 file, the oldest C++ that may include it.
#include "rapt/rapt_c.h"

const char* (*rapt_header_is_cpp)() = rapt_version;
