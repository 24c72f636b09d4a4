// A cache that Python threads share.
#pragma once

#include <mutex>
#include <shared_mutex>

#include "multihead/kv_cache.h"

namespace multihead::python {

/// Calls run without the GIL, so the cache has a lock of its own. Take it only after the GIL was released: who waits for the
/// lock with the GIL held would keep its owner from ever giving it back.
struct SharedCache {
  explicit SharedCache(const KvCacheConfig& config) : cache(config) {}

  KvCache cache;
  mutable std::shared_mutex mutex;
};

}  // namespace multihead::python
