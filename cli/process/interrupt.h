#pragma once
// Ctrl-C stops the computation between two tiles; unfinished files disappear.
#include "rapt/context.h"

namespace rapt::cli {

// Set by SIGINT, SIGTERM and SIGHUP from the first call on.
const CancelToken& interruption();

// Throws Error(cancelled) if one of these signals has arrived.
void stop_if_interrupted();

}  // namespace rapt::cli
