// Non-maximum suppression, within groups of boxes if there are any.
#pragma once

#include "export.h"
#include "suppression.h"

EXPORT_F32(nms)
