#include "statistics_json.h"

#include <cmath>

namespace multihead::cli {
namespace {

template <typename List>
Json list_of(const List& measured) {
  Json list = Json::array();
  for (const Measured& one : measured) list.push_back(json_of(one));
  return list;
}

}  // namespace

Json json_of_number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json json_of(const Measured& measured) {
  return {{"value", json_of_number(measured.value)}, {"uniform", json_of_number(measured.uniform)}};
}

Json json_of(const HeadStatistics& head) {
  Json json{{"head", head.head},
            {"live_rows", head.live_rows},
            {"entropy", json_of(head.entropy)},
            {"normalized_entropy", json_of(head.normalized_entropy)},
            {"confidence", json_of(head.confidence)},
            {"confidence_without_first", list_of(head.confidence_without_first)},
            {"effective_keys", json_of(head.effective_keys)},
            {"mean_distance", json_of(head.mean_distance)},
            {"row_mass", json_of(head.row_mass)},
            {"squares", json_of_number(head.squares)},
            {"max_score", json_of_number(head.max_score)},
            {"sink_mass", list_of(head.sink_mass)},
            {"self_mass", json_of(head.offset_mass[0])},
            {"previous_mass", json_of(head.offset_mass[1])},
            {"sink_alpha", json_of(head.sink_alpha)},
            {"is_sink_head", head.is_sink_head},
            {"histogram_pairs", head.histogram_pairs}};
  for (const double mass : head.histogram_mass) json["histogram_mass"].push_back(json_of_number(mass));
  if (head.has_tokens) {
    json["duplicate_mass"] = json_of(head.duplicate_mass);
    json["induction_mass"] = json_of(head.induction_mass);
  }
  if (head.has_values) {
    json["value_weighted_mass"] = json_of(head.value_weighted_mass);
    json["value_weighted_sink"] = list_of(head.value_weighted_sink);
  }
  if (head.has_output) json["output_norm"] = json_of_number(head.output_norm);
  return json;
}

}  // namespace multihead::cli
