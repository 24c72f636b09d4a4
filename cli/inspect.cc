// multihead inspect: the attention layers of a checkpoint.
#include <filesystem>
#include <memory>

#include "command.h"
#include "layers.h"
#include "multihead/checkpoint.h"
#include "options.h"
#include "report.h"

namespace multihead::cli {
namespace {

std::string heads_text(const LayerConfig& config) {
  if (config.num_kv_heads == config.num_heads) return std::to_string(config.num_heads);
  return std::to_string(config.num_heads) + " over " + std::to_string(config.num_kv_heads);
}

std::string dim_text(const LayerConfig& config) {
  const std::string dim = std::to_string(config.head_dim);
  return config.value_dim == config.head_dim ? dim : dim + ", values " + std::to_string(config.value_dim);
}

void inspect(const std::filesystem::path& path, bool json) {
  const Checkpoint checkpoint = Checkpoint::open(path);
  const std::vector<FoundLayer>& layers = checkpoint.layers();
  if (json) {
    Json list = Json::array();
    for (std::size_t i = 0; i < layers.size(); ++i) list.push_back(json_of(layers[i], i));
    return print(Json{{"path", path.string()}, {"layers", list}});
  }
  Table table({{"layer", Table::Align::kRight},
               {"name"},
               {"family"},
               {"role"},
               {"width", Table::Align::kRight},
               {"heads"},
               {"head_dim"},
               {"sees"},
               {"biases"},
               {"positions"}});
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const FoundLayer& layer = layers[i];
    table.add_row({std::to_string(i), layer.name, layer.family, layer.role, std::to_string(layer.config.model_dim),
                   heads_text(layer.config), dim_text(layer.config), visibility_text(layer.config),
                   layer.has_bias ? "yes" : "no", layer.positions});
  }
  print(path.string() + ": " + std::to_string(layers.size()) +
        (layers.size() == 1 ? " attention layer\n\n" : " attention layers\n\n") + table.text());
}

struct InspectOptions {
  std::optional<std::filesystem::path> path;
  bool json = false;
};

}  // namespace

void add_inspect(CLI::App& app) {
  auto* command = app.add_subcommand("inspect", "Attention layers of a checkpoint: family, shapes, heads, positions");
  auto options = std::make_shared<InspectOptions>();
  add_path(*command, "PATH", options->path, "folder with config.json and *.safetensors, or one .safetensors file")->required();
  command->add_flag("--json", options->json, "print one JSON object instead of text");
  command->callback([options] { inspect(*options->path, options->json); });
}

}  // namespace multihead::cli
