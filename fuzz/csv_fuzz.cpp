// CSV from any bytes.
#include "number_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rapt::fuzz::try_number_text(rapt::open_csv, rapt::write_csv, data, size);
  return 0;
}
