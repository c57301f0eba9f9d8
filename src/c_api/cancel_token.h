#pragma once
// The cancel token of the C interface.
#include "rapt/context.h"
#include "rapt/rapt_c.h"

struct rapt_cancel_token {
  rapt::CancelToken token;
};
