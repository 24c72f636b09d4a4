#include "multihead/checkpoint.h"

#include <cmath>
#include <utility>

#include "checkpoint/detect.h"
#include "checkpoint/files.h"
#include "checkpoint/recipe.h"
#include "io/text.h"

namespace multihead {
namespace {

namespace fs = std::filesystem;

std::string number_text(double number) {
  const bool whole = std::abs(number) < 1e15 && number == std::floor(number);
  return whole ? std::to_string(static_cast<Index>(number)) : concat(number);
}

std::string scaling_text(std::monostate) { return ""; }
std::string scaling_text(const LinearRotaryScaling& s) { return ", scaled by " + number_text(s.factor); }
std::string scaling_text(const Llama3RotaryScaling& s) { return ", llama3 scaling by " + number_text(s.factor); }
std::string scaling_text(const YarnRotaryScaling& s) { return ", yarn scaling by " + number_text(s.factor); }

std::string positions_text(const checkpoint::BlockPlan& plan) {
  if (plan.config.alibi) return "ALiBi";
  if (!plan.config.rotary) return plan.positions;
  const Rotary& rotary = *plan.config.rotary;
  std::string text = rotary.pairing == RotaryPairing::kHalfSplit ? "rotary half-split" : "rotary interleaved";
  if (rotary.rotary_dim < plan.config.head_dim) text += concat(" of ", rotary.rotary_dim, " dimensions");
  text += ", theta " + number_text(rotary.theta);
  return text + std::visit([](const auto& scaling) { return scaling_text(scaling); }, rotary.scaling);
}

// What the layer refuses is here the file's fault.
template <typename Make>
auto as_format_error(const std::string& file, Make make) {
  try {
    return make();
  } catch (const InvalidArgument& error) {
    refuse(file, error.what());
  } catch (const FormatError& error) {
    refuse(file, error.what());
  }
}

}  // namespace

struct Checkpoint::State {
  std::string file;
  Safetensors tensors;
  std::vector<FoundLayer> layers;
  std::vector<checkpoint::Recipe> recipes;  // one per layer

  void add(const checkpoint::FoundBlock& found) {
    using namespace checkpoint;
    const Context context{tensors, found.config, *found.naming, found.block};
    BlockPlan plan = found.family->configure(context);
    plan.config = plan.config.resolved();
    const Recipe recipe = make_recipe(context, plan);
    const FoundLayer layer{.family = found.family->name,
                           .name = found.block.path,
                           .role = plan.cross ? "cross" : "self",
                           .config = plan.config,
                           .has_bias = recipe.has_bias(),
                           .positions = positions_text(plan)};
    for (Index use = 0; use < plan.uses; ++use) {
      layers.push_back(layer);
      recipes.push_back(recipe);
    }
  }
};

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

Checkpoint Checkpoint::open(const fs::path& path) {
  const fs::path file = checkpoint::tensors_of(path);
  auto state = std::make_unique<State>(State{file.string(), Safetensors::open(file), {}, {}});
  const auto config = checkpoint::Config::read(file.parent_path());
  as_format_error(state->file, [&] {
    for (const auto& block : checkpoint::find_blocks(state->tensors, config)) {
      as_format_error(concat("layer ", quote(block.block.path), " (", block.family->name, ")"), [&] { state->add(block); });
    }
  });
  return Checkpoint(std::move(state));
}

const std::vector<FoundLayer>& Checkpoint::layers() const { return state_->layers; }

LayerWeights Checkpoint::load_weights(std::size_t layer) const {
  require(layer < state_->layers.size(), "Checkpoint: expected a layer below ", state_->layers.size(), "; got ", layer);
  return read_weights(state_->tensors, state_->recipes[layer]);
}

MultiHeadAttention Checkpoint::load(std::size_t layer) const {
  LayerWeights weights = load_weights(layer);
  return as_format_error(concat(state_->file, ": layer ", quote(state_->layers[layer].name)),
                         [&] { return MultiHeadAttention(state_->layers[layer].config, std::move(weights)); });
}

}  // namespace multihead
