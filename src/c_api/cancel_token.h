#pragma once
// What a cancel token of the C interface is.
#include "rapt/context.h"
#include "rapt/rapt_c.h"

struct rapt_cancel_token {
  rapt::CancelToken token;
};
