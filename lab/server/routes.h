// Which address answers with what.
#pragma once

#include "lab/server/router.h"

namespace multihead::lab {

/// The page, its files, and /api.
Router make_router();

}  // namespace multihead::lab
