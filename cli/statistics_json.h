// Statistics of heads as JSON.
#pragma once

#include "multihead/statistics.h"
#include "report.h"

namespace multihead::cli {

/// JSON has no NaN: null.
Json json_of_number(double value);
/// {"value": …, "uniform": …}.
Json json_of(const Measured& measured);
/// Every number of a head but those of rows, keys and distances. Of a request whose offsets begin with 0, 1.
Json json_of(const HeadStatistics& head);

}  // namespace multihead::cli
