// The answers of /api: the lab's stages, its presets, and the data flow of any configuration.
#pragma once

#include "lab/server/http.h"
#include "lab/server/problem.h"

namespace multihead::lab {

/// POST /api/lab: a problem (problem_from) to its stages. `compare_heads` adds the same projections cut into so
/// many heads. What the engine refuses is status 400; with ?refusals=answer it is 200 {"refused": text}.
Response lab_api(const Request& request);
/// GET /api/presets: the lab's presets as problems, by name, the first one first.
Response presets_api(const Request& request);
/// GET /api/random?seed=N: one problem of whole numbers.
Response random_api(const Request& request);
/// GET /api/describe?preset=NAME, or model_dim, num_heads, num_kv_heads, head_dim, causal, rotary; also query_len,
/// key_len, bias, and refusals as above.
Response describe_api(const Request& request);

/// All stages of a problem as JSON; what lab_api answers without `compare_heads`.
Json stages_json(const Problem& problem);

/// A parameter after ? as a whole number from `min` to `max`. Throws InvalidArgument that names it.
Index integer_parameter(const Request& request, const std::string& name, Index otherwise, Index min, Index max);

}  // namespace multihead::lab
