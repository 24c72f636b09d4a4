// A row of the table, ready to run: memory allocated, touched and filled.
#pragma once

#include <memory>

#include "bench_check.h"
#include "bench_rows.h"

namespace multihead::cli {

/// What bounds a row: multiply-adds or bytes.
enum class BenchLimit { kCompute, kMemory };

class BenchWork {
 public:
  virtual ~BenchWork() = default;
  /// The timed part: one call of the library.
  virtual void run() = 0;
  /// Of what the last run left.
  virtual BenchError check() const = 0;

  double operations = 0;  ///< of the matrix products of one run, over the visible pairs; multiply and add count two
  double bytes = 0;       ///< that one run must move at least
  BenchLimit limit = BenchLimit::kCompute;
};

/// Makes the rows' work; layers of one preset share their weights.
class BenchWorkshop {
 public:
  /// Throws InvalidArgument for a row that does not fit in the machine's memory.
  std::unique_ptr<BenchWork> prepare(const BenchRow& row);

 private:
  std::string preset_;
  std::shared_ptr<const MultiHeadAttention> layer_;
};

}  // namespace multihead::cli
