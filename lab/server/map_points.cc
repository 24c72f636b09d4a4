// Single coefficients, rows and columns.
#include <algorithm>
#include <array>
#include <chrono>

#include "lab/server/lab_api.h"
#include "lab/server/map_request.h"
#include "multihead/error.h"

namespace multihead::lab {
namespace {

constexpr Index kMostBins = 1024, kMostTop = 100;

const std::string& token(std::span<const std::string> tokens, Index at) {
  static const std::string kNone;
  return tokens.empty() ? kNone : tokens[static_cast<std::size_t>(at)];
}

Json coefficient_json(const AttentionMap& map, Index head, Index i, Index j) {
  constexpr std::array<const char*, 4> kStates{"value", "masked", "outside", "non_finite"};
  const Coefficient coefficient = map.at(head, i, j);
  return {{"i", i},
          {"j", j},
          {"state", kStates.at(static_cast<std::size_t>(coefficient.state))},
          {"probability", lab::json_of(static_cast<double>(coefficient.probability))},
          {"log2", lab::json_of(static_cast<double>(coefficient.log2))},
          {"visible", map.visible_keys(head, i)},
          {"query_token", token(map.query_tokens(), i)},
          {"key_token", token(map.key_tokens(), j)}};
}

// begin, size: a rectangle's side, clipped to the map.
IndexRange range_of(const Request& request, const std::string& begin, const std::string& size, Index end) {
  const Index first = index_parameter(request, begin, end);
  return {first, std::min(end, first + integer_parameter(request, size, 1, 1, end))};
}

struct Bins {
  IndexRange range;
  Index count;
};

Bins bins_of(const Request& request, Index end) {
  const Index from = integer_parameter(request, "from", 0, 0, std::max<Index>(end - 1, 0));
  const Index to = integer_parameter(request, "to", end, from, end);
  const Index count = integer_parameter(request, "bins", 256, 1, kMostBins);
  return {{from, to}, std::min(count, to - from)};
}

// log2 of each bin's largest coefficient; null where none is visible.
Json profile_json(const Tile& tile) {
  Json values = Json::array();
  for (std::size_t i = 0; i < tile.log2.size(); ++i) {
    values.push_back(tile.state[i] == CellState::kValue ? lab::json_of(static_cast<double>(tile.log2[i])) : Json(nullptr));
  }
  return values;
}

}  // namespace

Response coefficient(const Captures& captures, const Request& request) {
  const auto [capture, head] = place_of(captures, request);
  const AttentionMap& map = capture.map();
  return json_response(coefficient_json(map, head, index_parameter(request, "i", map.query_len()),
                                        index_parameter(request, "j", map.key_len())));
}

Response largest_in_cell(const Captures& captures, const Request& request) {
  const auto [capture, head] = place_of(captures, request);
  const AttentionMap& map = capture.map();
  const TileRequest one{range_of(request, "row", "rows", map.query_len()), range_of(request, "key", "keys", map.key_len()), 1,
                        1, Pooling::kMax};
  if (operations_of(map, one.rows, one.keys) > kTileOperations)
    throw InvalidArgument("cell: expected a smaller rectangle; this one is a sweep");
  const Tile tile = map.tile(head, one);
  if (tile.state.front() != CellState::kValue) return json_response({{"found", false}});
  Json found = coefficient_json(map, head, tile.max_row.front(), tile.max_key.front());
  found["found"] = true;
  return json_response(found);
}

Response row(const Captures& captures, const Request& request) {
  const auto [capture, head] = place_of(captures, request);
  const AttentionMap& map = capture.map();
  const Index i = index_parameter(request, "i", map.query_len());
  const auto start = std::chrono::steady_clock::now();
  const Bins bins = bins_of(request, map.key_len());
  Json largest = Json::array();
  for (const TopKey& key : map.top(head, i, integer_parameter(request, "top", 10, 1, kMostTop))) {
    largest.push_back({{"key", key.key},
                       {"probability", lab::json_of(static_cast<double>(key.probability))},
                       {"log2", lab::json_of(static_cast<double>(key.log2))},
                       {"token", token(map.key_tokens(), key.key)}});
  }
  Json profile = Json::array();
  if (bins.count > 0) profile = profile_json(map.tile(head, {{i, i + 1}, bins.range, 1, bins.count, Pooling::kMax}));
  const double milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return json_response({{"i", i},
                        {"token", token(map.query_tokens(), i)},
                        {"visible", map.visible_keys(head, i)},
                        {"top", std::move(largest)},
                        {"profile", std::move(profile)},
                        {"milliseconds", milliseconds}});
}

Response column(const Captures& captures, const Request& request) {
  const auto [capture, head] = place_of(captures, request);
  const AttentionMap& map = capture.map();
  const Index j = index_parameter(request, "j", map.key_len());
  const Bins bins = bins_of(request, map.query_len());
  Json profile = Json::array();
  if (bins.count > 0) profile = profile_json(map.tile(head, {bins.range, {j, j + 1}, bins.count, 1, Pooling::kMax}));
  return json_response({{"j", j}, {"token", token(map.key_tokens(), j)}, {"profile", std::move(profile)}});
}

Response visible_keys(const Captures& captures, const Request& request) {
  const auto [capture, head] = place_of(captures, request);
  const AttentionMap& map = capture.map();
  const Bins bins = bins_of(request, map.query_len());
  Json counts = Json::array();
  for (Index bin = 0; bin < bins.count; ++bin) {
    const Index middle = bins.range.begin + (2 * bin + 1) * bins.range.size() / (2 * bins.count);
    counts.push_back(map.visible_keys(head, middle));
  }
  return json_response({{"visible", std::move(counts)}});
}

}  // namespace multihead::lab
