#include "lab/server/problem.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "multihead/error.h"

namespace multihead::lab {
namespace {

constexpr std::array<std::pair<const char*, Mask>, 3> kMasks{
    {{"none", Mask::kNone}, {"causal", Mask::kCausal}, {"after_softmax", Mask::kAfterSoftmax}}};

Mask mask_from(const Json& json) {
  for (const auto& [name, mask] : kMasks) {
    if (json == name) return mask;
  }
  throw InvalidArgument("mask: expected \"none\", \"causal\" or \"after_softmax\"; got " + json.dump());
}

Index integer_from(const Json& json, const std::string& what, Index min, Index max) {
  if (!json.is_number_integer() || json.get<Index>() < min || json.get<Index>() > max) {
    throw InvalidArgument(what + ": expected a whole number from " + std::to_string(min) + " to " + std::to_string(max) +
                          "; got " + json.dump());
  }
  return json.get<Index>();
}

const Json& member(const Json& json, const char* name) {
  if (!json.contains(name)) throw InvalidArgument(std::string("the member \"") + name + "\" is missing");
  return json[name];
}

Matrix matrix_member(const Json& json, const char* name, Index max_rows) {
  return matrix_from(member(json, name), name, max_rows, kMaxWidth);
}

}  // namespace

LayerConfig Problem::config() const {
  LayerConfig config;
  config.model_dim = input.cols;
  config.num_heads = num_heads;
  config.head_dim = head_dim;
  config.key_input_dim = key_input().cols;
  config.causal = mask == Mask::kCausal;
  config.scale = scale;
  return config.resolved();
}

Problem problem_from(const Json& json) {
  static const std::set<std::string> kMembers{"num_heads",    "head_dim",      "scale",        "mask",
                                              "input",        "memory",        "query_weight", "key_weight",
                                              "value_weight", "output_weight", "compare_heads"};
  if (!json.is_object()) throw InvalidArgument(std::string("expected a JSON object; got ") + json.type_name());
  for (const auto& item : json.items()) {
    if (!kMembers.contains(item.key())) throw InvalidArgument("the member \"" + item.key() + "\" is not known");
  }
  const auto given = [&](const char* name) { return json.contains(name) && !json[name].is_null(); };
  Problem problem;
  problem.num_heads = integer_from(member(json, "num_heads"), "num_heads", 1, kMaxWidth);
  if (given("head_dim")) problem.head_dim = integer_from(json["head_dim"], "head_dim", 0, kMaxWidth);
  if (given("scale")) problem.scale = static_cast<float>(matrix_from({{json["scale"]}}, "scale", 1, 1).at(0, 0));
  if (given("mask")) problem.mask = mask_from(json["mask"]);
  problem.input = matrix_member(json, "input", kMaxLength);
  if (given("memory")) problem.memory = matrix_member(json, "memory", kMaxLength);
  problem.query_weight = matrix_member(json, "query_weight", kMaxWidth);
  problem.key_weight = matrix_member(json, "key_weight", kMaxWidth);
  problem.value_weight = matrix_member(json, "value_weight", kMaxWidth);
  problem.output_weight = matrix_member(json, "output_weight", kMaxWidth);
  return problem;
}

Json json_of(const Problem& problem) {
  const auto named = std::find_if(kMasks.begin(), kMasks.end(), [&](const auto& mask) { return mask.second == problem.mask; });
  return {{"num_heads", problem.num_heads},
          {"head_dim", problem.head_dim},
          {"scale", problem.scale ? json_of(static_cast<double>(*problem.scale)) : Json(nullptr)},
          {"mask", named->first},
          {"input", json_of(problem.input)},
          {"memory", problem.memory ? json_of(*problem.memory) : Json(nullptr)},
          {"query_weight", json_of(problem.query_weight)},
          {"key_weight", json_of(problem.key_weight)},
          {"value_weight", json_of(problem.value_weight)},
          {"output_weight", json_of(problem.output_weight)}};
}

}  // namespace multihead::lab
