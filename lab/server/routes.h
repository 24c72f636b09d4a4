// Which address answers with what.
#pragma once

#include <memory>

#include "lab/server/captures.h"
#include "lab/server/router.h"

namespace multihead::lab {

/// The page, its files, /api, and the captures' maps.
Router make_router(const std::shared_ptr<Captures>& captures);

}  // namespace multihead::lab
