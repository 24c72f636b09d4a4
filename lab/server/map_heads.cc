// What is open, and what its heads do.
#include "lab/server/lab_api.h"
#include "lab/server/map_request.h"

namespace multihead::lab {
namespace {

std::string name_of(const OpenCapture& capture) {
  const CaptureLabels& labels = capture.map().capture().labels;
  return labels.name.empty() ? capture.id() : labels.name;
}

}  // namespace

Json capture_json(const OpenCapture& open) {
  const AttentionMap& map = open.map();
  const Capture& capture = map.capture();
  return {{"id", open.id()},
          {"name", name_of(open)},
          {"model", capture.labels.model},
          {"layer", capture.labels.layer},
          {"positions", capture.labels.positions},
          {"num_heads", map.num_heads()},
          {"num_kv_heads", capture.num_kv_heads()},
          {"query_len", map.query_len()},
          {"key_len", map.key_len()},
          {"head_dim", capture.head_dim()},
          {"max_zoom", map.max_zoom()},
          {"causal", capture.options.causal},
          {"plainly_causal", open.plainly_causal()},
          {"first_position", map.query_len() > 0 ? map.position(0) : 0},
          {"square", map.query_len() == map.key_len()},
          {"has_values", !capture.value.empty()},
          {"has_tokens", !capture.labels.key_tokens.empty()},
          {"bytes", capture.bytes()}};
}

namespace {

Json json_of(const Measured& measured) {
  return {{"value", lab::json_of(measured.value)}, {"uniform", lab::json_of(measured.uniform)}};
}

Json statistics_json(const HeadStatistics& head) {
  return {{"normalized_entropy", json_of(head.normalized_entropy)},
          {"confidence", json_of(head.confidence)},
          {"effective_keys", json_of(head.effective_keys)},
          {"mean_distance", json_of(head.mean_distance)},
          {"sink_mass", json_of(head.sink_mass.front())},
          {"self_mass", json_of(head.offset_mass.at(0))},
          {"previous_mass", json_of(head.offset_mass.at(1))},
          {"max_score", lab::json_of(head.max_score)},
          {"output_norm", head.has_output ? lab::json_of(head.output_norm) : Json(nullptr)}};
}

}  // namespace

Response heads(const Captures& captures, const Request& request) {
  OpenCapture& capture = capture_of(captures, request);
  Json list = Json::array();
  Index ready = 0;
  const Index group = capture.map().num_heads() / capture.map().capture().num_kv_heads();
  for (Index head = 0; head < capture.map().num_heads(); ++head) {
    const auto statistics = capture.statistics(head);
    ready += statistics ? 1 : 0;
    list.push_back({{"head", head},
                    {"kv_head", head / group},
                    {"failure", capture.failure(head)},
                    {"statistics", statistics ? statistics_json(*statistics) : Json(nullptr)}});
  }
  return json_response({{"heads", std::move(list)}, {"ready", ready}});
}

Response sweep(const Captures& captures, const Request& request) {
  const auto [capture, head] = place_of(captures, request);
  return json_response({{"done", capture.sweep(head)}, {"failure", capture.failure(head)}});
}

}  // namespace multihead::lab
