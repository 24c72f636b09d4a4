// One parallel loop for the whole library, on OpenMP's pool.
#pragma once

#include <functional>

#include "multihead/export.h"
#include "multihead/tensor.h"

namespace multihead {

/// Threads that `items` pieces of work may use now: num_threads(), never more than items, 1 inside another parallel region's
/// nested level.
MULTIHEAD_API int threads_for(Index items);

/// The same for work that can be cut as finely as one likes: below 200,000 multiply-adds a second thread costs more than it
/// brings (waking one takes 5 … 50 us, a core does 10^4 … 10^5 of them a microsecond).
MULTIHEAD_API int threads_for_work(double multiply_adds);

/// Calls work(item, thread) for every item in [0, items), each once, on up to `threads` threads, handed out in ascending order.
/// thread is in [0, threads): the key to per-thread scratch, valid inside nested regions too. The first exception is rethrown
/// after all threads have stopped.
MULTIHEAD_API void parallel_for(Index items, int threads, const std::function<void(Index item, int thread)>& work);

}  // namespace multihead
