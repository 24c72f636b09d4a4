// Rectangles of a map as codes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "lab/server/lab_api.h"
#include "lab/server/map_request.h"
#include "multihead/error.h"

namespace multihead::lab {
namespace {

constexpr Index kThumbnail = 64;
constexpr double kThumbnailOperations = 2e8;

Pooling pooling_of(const Request& request) {
  const std::string name = request.parameter("pool", "max");
  if (name == "max") return Pooling::kMax;
  if (name == "mean") return Pooling::kMean;
  if (name == "mass") return Pooling::kMass;
  throw InvalidArgument("pool: expected max, mean or mass; got '" + name + "'");
}

std::string milliseconds_text(double milliseconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", milliseconds);
  return text.data();
}

}  // namespace

Response tile(const Captures& captures, const Request& request) {
  const auto [capture, head] = place_of(captures, request);
  TileQuery query;
  query.head = head;
  const Index z = integer_segment(request, "z"), x = integer_segment(request, "x"), y = integer_segment(request, "y");
  const int deepest = capture.map().max_zoom();
  if (z < 0 || z > deepest || x < 0 || y < 0 || x >= (Index{1} << z) || y >= (Index{1} << z)) {
    throw HttpError{404, "tiles go from z = 0 to " + std::to_string(deepest) + ", x and y from 0 to 2^z - 1"};
  }
  query.address = {static_cast<int>(z), x, y};
  query.pooling = pooling_of(request);
  query.values = integer_parameter(request, "values", 0, 0, 1) == 1;
  const Index bits = integer_parameter(request, "bits", 16, 8, 16);
  if (bits != 8 && bits != 16) throw InvalidArgument("bits: expected 8 or 16; got " + std::to_string(bits));
  query.bits = bits == 8 ? TileBits::k8 : TileBits::k16;
  if (query.values && query.pooling != Pooling::kMax)
    throw InvalidArgument("values: expected pool=max, since other poolings do not keep single coefficients");
  EncodedTile encoded = capture.tile(query);
  return {200,
          "application/octet-stream",
          std::move(encoded.codes),
          {{"X-Tile-Source", encoded.source},
           {"X-Tile-Milliseconds", milliseconds_text(encoded.milliseconds)},
           {"X-Tile-Sample-Step", std::to_string(encoded.sample_step)}}};
}

Response thumbnail(const Captures& captures, const Request& request) {
  const auto [capture, head] = place_of(captures, request);
  const AttentionMap& map = capture.map();
  const Index side = std::max<Index>({map.query_len(), map.key_len(), kThumbnail});
  const TileRequest whole{{0, side}, {0, side}, kThumbnail, kThumbnail, Pooling::kMax};
  const double all = operations_of(map, {0, map.query_len()}, {0, map.key_len()});
  const auto step = static_cast<Index>(std::max(1.0, std::ceil(std::sqrt(all / kThumbnailOperations))));
  const Tile tile = map.sampled_tile(head, whole, step);
  return {200,
          "application/octet-stream",
          encode(tile.log2.data(), tile.state.data(), tile.log2.size(), TileBits::k16),
          {{"X-Tile-Sample-Step", std::to_string(step)}}};
}

}  // namespace multihead::lab
