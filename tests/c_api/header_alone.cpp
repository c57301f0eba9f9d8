// The header as the only one, as the oldest C++ that may meet it.
#include "rapt/rapt_c.h"

const char* (*rapt_header_is_cpp)() = rapt_version;
