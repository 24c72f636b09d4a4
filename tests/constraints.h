// Everything that decides what a query may see or how scores change, one by one, to be combined in tests.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "attention_checks.h"

namespace multihead::test {

/// One way to restrict or change a call. Of each group at most one can be in a combination.
struct Constraint {
  const char* name;
  const char* group;
  std::function<void(Problem&, Random&)> apply;
};

namespace detail {

inline std::vector<Index> offsets(const Problem& problem, Random& random, Index low, Index high) {
  const std::size_t count =
      problem.options.packed ? problem.options.packed->query_starts.size() - 1 : static_cast<std::size_t>(problem.shape.batch);
  std::vector<Index> values(count);
  for (Index& value : values) value = random.between(low, high);
  return values;
}

inline Tensor bias(DType dtype, const Dims& shape, double masked, Random& random) {
  return filled(dtype, shape, [&](Index) { return random.chance(masked) ? -kInfinity : 2 * random.normal(); });
}

inline std::vector<Index> random_starts(Index total, std::size_t sequences, Random& random) {
  std::vector<Index> starts{0, total};
  while (starts.size() < sequences + 1) starts.push_back(random.between(0, total));
  std::sort(starts.begin(), starts.end());
  return starts;
}

inline void pack(Problem& problem, Random& random) {
  const std::size_t sequences = static_cast<std::size_t>(random.between(1, 5));
  problem.options.packed = PackedSequences{random_starts(problem.shape.query_len, sequences, random),
                                           random_starts(problem.shape.key_len, sequences, random)};
}

inline std::vector<float> per_head(const Problem& problem, Random& random, double low, double high) {
  std::vector<float> values(static_cast<std::size_t>(problem.shape.heads));
  for (float& value : values) value = static_cast<float>(low + (high - low) * random.uniform());
  return values;
}

}  // namespace detail

/// In the order in which they must be applied: offsets after the packing that tells how many there are.
inline const std::vector<Constraint>& constraints() {
  static const std::vector<Constraint> all{
      {"packed", "lengths", [](Problem& p, Random& r) { detail::pack(p, r); }},
      {"key lengths", "lengths",
       [](Problem& p, Random& r) { p.options.key_lengths = detail::offsets(p, r, 0, p.shape.key_len); }},
      {"causal", "causal", [](Problem& p, Random&) { p.options.causal = true; }},
      {"top left", "offset", [](Problem& p, Random&) { p.options.top_left = true; }},
      {"offsets", "offset", [](Problem& p, Random& r) { p.options.query_offsets = detail::offsets(p, r, 0, p.shape.key_len); }},
      {"negative offsets", "offset",
       [](Problem& p, Random& r) { p.options.query_offsets = detail::offsets(p, r, -p.shape.query_len - 2, -1); }},
      {"offsets beyond the keys", "offset",
       [](Problem& p, Random& r) { p.options.query_offsets = detail::offsets(p, r, p.shape.key_len, p.shape.key_len + 20); }},
      {"window left", "window",
       [](Problem& p, Random& r) {
         p.options.window = Window{r.between(0, p.shape.key_len), std::nullopt};
       }},
      {"window right", "window",
       [](Problem& p, Random& r) {
         p.options.window = Window{std::nullopt, r.between(0, p.shape.key_len)};
       }},
      {"window both", "window",
       [](Problem& p, Random& r) {
         p.options.window = Window{r.between(0, 20), r.between(0, 9)};
       }},
      {"mask [keys]", "mask", [](Problem& p, Random& r) { p.set_mask(random_mask({p.shape.key_len}, 0.6, r)); }},
      {"mask [queries, keys]", "mask",
       [](Problem& p, Random& r) {
         p.set_mask(random_mask({p.shape.query_len, p.shape.key_len}, 0.5, r));
       }},
      {"mask [batch, 1, 1, keys]", "mask",
       [](Problem& p, Random& r) {
         p.set_mask(random_mask({p.shape.batch, 1, 1, p.shape.key_len}, 0.6, r));
       }},
      {"mask [1, heads, queries, 1]", "mask",
       [](Problem& p, Random& r) {
         p.set_mask(random_mask({1, p.shape.heads, p.shape.query_len, 1}, 0.7, r));
       }},
      {"mask of full shape", "mask", [](Problem& p, Random& r) { p.set_mask(random_mask(p.shape.scores(), 0.5, r)); }},
      {"bias [keys]", "bias", [](Problem& p, Random& r) { p.set_bias(detail::bias(DType::kF32, {p.shape.key_len}, 0.2, r)); }},
      {"f16 bias [queries, keys]", "bias",
       [](Problem& p, Random& r) {
         p.set_bias(detail::bias(DType::kF16, {p.shape.query_len, p.shape.key_len}, 0.3, r));
       }},
      {"bf16 bias [1, heads, 1, keys]", "bias",
       [](Problem& p, Random& r) {
         p.set_bias(detail::bias(DType::kBF16, {1, p.shape.heads, 1, p.shape.key_len}, 0.3, r));
       }},
      {"bias of full shape", "bias",
       [](Problem& p, Random& r) { p.set_bias(detail::bias(DType::kF32, p.shape.scores(), 0.3, r)); }},
      {"softcap", "softcap", [](Problem& p, Random& r) { p.options.softcap = static_cast<float>(0.5 + 4 * r.uniform()); }},
      {"alibi", "alibi", [](Problem& p, Random& r) { p.options.alibi_slopes = detail::per_head(p, r, -0.1, 0.5); }},
      {"sinks", "sinks",
       [](Problem& p, Random& r) {
         p.options.sinks = detail::per_head(p, r, -3, 3);
         p.options.sinks[0] = -HUGE_VALF;
       }},
      {"dropout", "dropout",
       [](Problem& p, Random& r) {
         p.options.dropout = Dropout{static_cast<float>(0.8 * r.uniform()), static_cast<std::uint64_t>(r.between(0, 1 << 30))};
       }},
      {"scale", "scale", [](Problem& p, Random& r) { p.options.scale = static_cast<float>(r.normal()); }},
  };
  return all;
}

/// A call under the given constraints (indices in ascending order), of random odd sizes. False if two exclude each other.
inline bool combine(const std::vector<std::size_t>& chosen, std::uint64_t seed, Problem& problem, std::string& name) {
  const std::vector<Constraint>& all = constraints();
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    for (std::size_t b = a + 1; b < chosen.size(); ++b) {
      if (std::string(all[chosen[a]].group) == all[chosen[b]].group) return false;
    }
  }
  Random random(seed);
  constexpr std::array kTypes{DType::kF32, DType::kF32, DType::kF16, DType::kBF16};
  const Index kv_heads = random.between(1, 2);
  Shape shape{.batch = random.between(1, 3),
              .heads = kv_heads * random.between(1, 3),
              .kv_heads = kv_heads,
              .query_len = random.chance(0.25) ? 1 : random.between(1, 40),
              .key_len = random.chance(0.1) ? random.between(350, 500) : random.between(1, 110),
              .head_dim = random.between(1, 20),
              .value_dim = random.between(1, 20)};
  for (const std::size_t index : chosen) {
    if (std::string(all[index].name) == "packed") shape.batch = 1;
  }
  problem = make_problem(shape, seed, kTypes[static_cast<std::size_t>(random.between(0, 3))]);
  name = to_string(shape) + ", " + std::string(name_of(problem.output_dtype));
  for (const std::size_t index : chosen) {
    all[index].apply(problem, random);
    name += std::string("; ") + all[index].name;
  }
  return true;
}

/// Calls visit(problem, name) for every combination of `size` constraints that do not exclude each other.
inline void for_each_combination(std::size_t size, std::uint64_t seed,
                                 const std::function<void(Problem&, const std::string&)>& visit) {
  std::vector<std::size_t> chosen;
  const std::function<void(std::size_t)> extend = [&](std::size_t first) {
    if (chosen.size() == size) {
      Problem problem;
      std::string name;
      if (combine(chosen, ++seed, problem, name)) visit(problem, name);
      return;
    }
    for (std::size_t next = first; next < constraints().size(); ++next) {
      chosen.push_back(next);
      extend(next + 1);
      chosen.pop_back();
    }
  };
  extend(0);
}

}  // namespace multihead::test
