#pragma once
// The catalogue's masks: which query may attend to which key. To add a mask: write its header, add
// its name here, add its test and its page (CONTRIBUTING.md).
//
// A list of its own beside variants.h, because kernels see no mask.
#include "rapt/mask/and.h"
#include "rapt/mask/bigbird.h"
#include "rapt/mask/blocks.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/chunked.h"
#include "rapt/mask/dilated.h"
#include "rapt/mask/documents.h"
#include "rapt/mask/documents_by_starts.h"
#include "rapt/mask/fixed.h"
#include "rapt/mask/global.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/neighborhood.h"
#include "rapt/mask/not.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/strided.h"
#include "rapt/mask/tree.h"
#include "rapt/mask/window.h"

namespace rapt {

// All masks; those that combine others stand last.
using Masks =
    TypeList<Causal, Window, Dilated, Global, Strided, Fixed, Chunked, Neighborhood, Lengths,
             Boolean, Prefix, Documents, DocumentsByStarts, Tree, BigBird, Blocks, And, Or, Not>;

}  // namespace rapt
