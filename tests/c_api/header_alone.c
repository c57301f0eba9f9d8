/* A header as the only include of a C99 file: it must include all that it needs. This one includes
 * rapt_c.h. */
#include "rapt/rapt_cache_c.h"

int rapt_header_is_c99(void);
int rapt_header_is_c99(void) {
  rapt_tensor tensor = {sizeof tensor, NULL, RAPT_F32, RAPT_CPU, 0, 0, NULL, NULL};
  return (int)tensor.rank + RAPT_OK;
}
