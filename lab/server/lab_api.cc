#include "lab/server/lab_api.h"

#include <charconv>
#include <cmath>

#include "lab/server/stages.h"
#include "multihead/error.h"

namespace multihead::lab {
namespace {

Json json_of(const std::vector<double>& numbers) {
  Json array = Json::array();
  for (const double number : numbers) array.push_back(lab::json_of(number));
  return array;
}

Json json_of(const std::vector<std::pair<Index, Index>>& pairs) {
  Json array = Json::array();
  for (const auto& [a, b] : pairs) array.push_back({a, b});
  return array;
}

// Steps as columns: [[key, score, max, rescale, weight, sum, [output …]] …] would be shorter, names are read.
Json json_of(const std::vector<std::vector<OnlineStep>>& rows) {
  Json array = Json::array();
  for (const auto& row : rows) {
    Json steps = Json::array();
    for (const OnlineStep& step : row) {
      steps.push_back({{"key", step.key},
                       {"score", lab::json_of(step.score)},
                       {"max", lab::json_of(step.max)},
                       {"rescale", lab::json_of(step.rescale)},
                       {"weight", lab::json_of(step.weight)},
                       {"sum", lab::json_of(step.sum)},
                       {"output", json_of(step.output)}});
    }
    array.push_back(std::move(steps));
  }
  return array;
}

Json json_of(const Stages& stages, Mask mask) {
  Json heads = Json::array();
  for (const HeadStages& head : stages.heads) {
    heads.push_back({{"query", lab::json_of(head.query)},
                     {"key", lab::json_of(head.key)},
                     {"value", lab::json_of(head.value)},
                     {"products", lab::json_of(head.products)},
                     {"scores", lab::json_of(head.scores)},
                     {"probabilities", lab::json_of(head.probabilities)},
                     {"output", lab::json_of(head.output)},
                     {"contribution", lab::json_of(head.contribution)},
                     {"lse", json_of(head.lse)},
                     {"online", json_of(head.online)}});
  }
  Json visibility = Json::array();
  for (Index i = 0; i < stages.query.rows; ++i) {
    Json row = Json::array();
    for (Index j = 0; j < stages.key.rows; ++j) row.push_back(visible(mask, i, j));
    visibility.push_back(std::move(row));
  }
  return {
      {"num_heads", stages.config.num_heads},  {"head_dim", stages.config.head_dim},    {"value_dim", stages.config.value_dim},
      {"scale", lab::json_of(stages.scale)},   {"visible", std::move(visibility)},      {"query", lab::json_of(stages.query)},
      {"key", lab::json_of(stages.key)},       {"value", lab::json_of(stages.value)},   {"heads", std::move(heads)},
      {"concat", lab::json_of(stages.concat)}, {"output", lab::json_of(stages.output)}, {"check", lab::json_of(stages.check)}};
}

double operations_of(const LayerDescription& description, const std::string& step) {
  for (const LayerStep& candidate : description.steps) {
    if (candidate.name == step) return candidate.operations;
  }
  return 0;
}

// What h changes and what it does not: one row for each divisor of the width, and one for the problem itself.
Json counters_json(const Problem& problem) {
  const Index n = problem.input.rows, m = problem.key_input().rows;
  const auto row = [&](const LayerConfig& config) -> Json {
    const LayerDescription description = describe(config, n, m);
    const double score_operations = operations_of(description, "scores");
    const double pairs = score_operations / (2 * static_cast<double>(description.config.head_dim));
    return {{"num_heads", description.config.num_heads},
            {"head_dim", description.config.head_dim},
            {"parameters", description.parameters},
            {"score_multiplications", score_operations / 2},
            {"operations", description.operations},
            {"coefficients", description.config.num_heads * n * m},
            {"exponentials", pairs}};
  };
  LayerConfig config = problem.config();
  Json divisors = Json::array();
  for (Index heads = 1; heads <= config.model_dim; ++heads) {
    if (config.model_dim % heads != 0) continue;
    LayerConfig plain;
    plain.model_dim = config.model_dim;
    plain.key_input_dim = config.key_input_dim;
    plain.num_heads = heads;
    plain.causal = config.causal;
    divisors.push_back(row(plain));
  }
  return {{"divisors", std::move(divisors)}, {"here", row(config)}};
}

// All stages, and with `compare_heads` those of the same projections in so many heads.
Json answer_json(const Problem& problem, const Json& body) {
  Json answer = stages_json(problem);
  if (!body.contains("compare_heads") || body["compare_heads"].is_null()) return answer;
  const Json& heads = body["compare_heads"];
  if (!heads.is_number_integer() || heads.get<Index>() < 1 || heads.get<Index>() > kMaxWidth)
    throw InvalidArgument("compare_heads: expected a whole number from 1 to " + std::to_string(kMaxWidth) + "; got " +
                          heads.dump());
  const Problem other = regrouped(problem, heads.get<Index>());
  const Stages stages = compute(other);
  answer["compare"] = json_of(stages, problem.mask);
  if (other.num_heads == 1) {
    const ScoreIdentity identity = score_identity(stages, compute(problem));
    answer["compare"]["identity"] = {{"factor", lab::json_of(identity.factor)},
                                     {"left", lab::json_of(identity.left)},
                                     {"right", lab::json_of(identity.right)},
                                     {"difference", lab::json_of(identity.difference)}};
  }
  return answer;
}

}  // namespace

Json stages_json(const Problem& problem) {
  const Stages stages = compute(problem);
  const Findings found = findings(problem, stages);
  Json json = json_of(stages, problem.mask);
  json["counters"] = counters_json(problem);
  json["findings"] = {
      {"equal_maps", json_of(found.equal_maps)}, {"equal_heads", json_of(found.equal_heads)}, {"averaged", found.averaged}};
  return json;
}

Response lab_api(const Request& request) {
  if (request.content_type.rfind("application/json", 0) != 0) {
    // Also what keeps other sites' forms out: they cannot send this type without asking first.
    throw HttpError{415, "expected Content-Type: application/json; got " + request.content_type};
  }
  Json body;
  try {
    body = Json::parse(request.body);
  } catch (const Json::parse_error& error) {
    throw HttpError{400, "expected JSON; it breaks off at byte " + std::to_string(error.byte)};
  }
  const Problem problem = problem_from(body);
  try {
    return json_response(answer_json(problem, body));
  } catch (const InvalidArgument& error) {
    if (request.parameter("refusals") != "answer") throw;
    return json_response({{"refused", error.what()}});
  }
}

Response presets_api(const Request&) {
  Json presets = Json::array();
  for (const Problem& problem : lab_presets()) presets.push_back({{"name", problem.name}, {"problem", lab::json_of(problem)}});
  return json_response({{"presets", std::move(presets)}, {"max_length", kMaxLength}, {"max_width", kMaxWidth}});
}

Response random_api(const Request& request) {
  constexpr Index kLargestSeed = 1'000'000'000;
  const Index seed = integer_parameter(request, "seed", 1, 0, kLargestSeed);
  return json_response({{"name", "random"}, {"problem", lab::json_of(random_problem(static_cast<std::uint64_t>(seed)))}});
}

Index integer_parameter(const Request& request, const std::string& name, Index otherwise, Index min, Index max) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  const std::string& text = found->second;
  Index value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < min || value > max) {
    throw InvalidArgument(name + ": expected a whole number from " + std::to_string(min) + " to " + std::to_string(max) +
                          "; got '" + text + "'");
  }
  return value;
}

}  // namespace multihead::lab
