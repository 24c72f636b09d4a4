#include "checkpoint/detect.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "checkpoint/names.h"
#include "io/text.h"

namespace multihead::checkpoint {
namespace {

// A naming that fits a path.
struct Candidate {
  const Family* family;
  const Naming* naming;
  Index depth;
};

using Candidates = std::vector<Candidate>;

const std::string& first_weight(const Naming& naming) {
  return naming.query.weight.empty() ? naming.fused.weight : naming.query.weight;
}

std::map<std::string, Candidates> find_candidates(const Safetensors& tensors) {
  std::map<std::string, Candidates> found;
  for (const SafetensorsEntry& entry : tensors.entries()) {
    for (const Family& family : families()) {
      for (const Naming& naming : family.namings) {
        auto match = match_block(entry.name, naming.block, first_weight(naming));
        if (match) found[match->path].push_back({&family, &naming, match->depth});
      }
    }
  }
  return found;
}

std::string full_name(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

using Names = std::vector<std::string>;

Names projections_of(const Naming& naming) {
  return {naming.query.weight, naming.key.weight, naming.value.weight, naming.fused.weight, naming.output.weight};
}

// What a layer has besides, without which it would compute something else.
Names extras_of(const Naming& naming) { return {naming.query_norm.weight, naming.key_norm.weight, naming.sinks}; }

// The first of these that the file does not have; nothing when all are there.
std::string missing_tensor(const Safetensors& tensors, const std::string& path, const Names& names) {
  const auto is_missing = [&](const std::string& name) { return !name.empty() && !tensors.find(full_name(path, name)); };
  const auto missing = std::find_if(names.begin(), names.end(), is_missing);
  return missing == names.end() ? "" : *missing;
}

bool knows(const Naming& naming, const std::string& name, const SafetensorsEntry& entry) {
  const Part* const parts[] = {&naming.query,  &naming.key,        &naming.value,   &naming.fused,
                               &naming.output, &naming.query_norm, &naming.key_norm};
  for (const Part* part : parts) {
    if (name == part->weight || name == part->bias) return true;
  }
  if (name == naming.sinks) return true;
  constexpr int kMaskRank = 4;  // old GPT files hold the causal mask as `bias`; a bias of that name would be a stranger
  if (name == "bias" && entry.shape.rank() != kMaskRank) return false;
  return std::find(naming.others.begin(), naming.others.end(), name) != naming.others.end();
}

// The first tensor under the path that the naming does not mention; null when there is none.
const SafetensorsEntry* unexpected_tensor(const Safetensors& tensors, const std::string& path, const Naming& naming) {
  const auto& entries = tensors.entries();
  const std::string prefix = path.empty() ? "" : path + ".";
  auto entry =
      std::lower_bound(entries.begin(), entries.end(), prefix, [](const auto& e, const auto& p) { return e.name < p; });
  for (; entry != entries.end() && entry->name.starts_with(prefix); ++entry) {
    if (!knows(naming, entry->name.substr(prefix.size()), *entry)) return &*entry;
  }
  return nullptr;
}

std::string plain_letters(const std::string& text) {
  std::string plain;
  for (const char c : text) {
    if (c != '_' && c != '-') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return plain;
}

// The model_type that a class like "GPTNeoXForCausalLM" belongs to; the class itself when that is not known.
std::string model_type_of_class(const std::string& name) {
  const std::string plain = plain_letters(name);
  for (const Family& family : families()) {
    for (const std::string& type : family.model_types) {
      const std::string begin = plain_letters(type);
      for (const char* kind : {"for", "model", "lmhead", "encodermodel"}) {
        if (plain.starts_with(begin + kind)) return type;
      }
    }
  }
  return name;
}

std::optional<std::string> model_type(const Config& config) {
  if (const auto type = config.text({"model_type", "_class_name"})) return type;
  if (!config.is_list("architectures")) return std::nullopt;
  return model_type_of_class(*config.text_at("architectures", 0));
}

// The part of config.json that describes the model around a path.
Config config_for(const Config& config, const std::string& path) {
  const auto parts = components(path);
  const auto about = [](std::string_view part) { return part.starts_with("vision") || part.starts_with("visual"); };
  if (!parts.empty() && (parts.front() == "encoder" || parts.front() == "decoder")) {
    const std::string stack(parts.front());
    if (config.is_object(stack.c_str())) return config.object({stack.c_str()});
  }
  const bool vision = std::any_of(parts.begin(), parts.end(), about);
  for (const char* key : {"vision_config", "text_config", "llm_config", "language_config"}) {
    if (config.is_object(key) && (std::string_view(key) == "vision_config") == vision) return config.object({key});
  }
  return config;
}

std::string names_of(const Candidates& candidates) {
  std::string text;
  const Family* last = nullptr;  // two namings of a family follow one another
  for (const Candidate& candidate : candidates) {
    if (candidate.family != last) text += (text.empty() ? "" : ", ") + candidate.family->name;
    last = candidate.family;
  }
  return text;
}

// Narrows candidates to one. config.json's model_type decides; where it is silent, only what the tensors themselves rule out.
class Selection {
 public:
  Selection(const Safetensors& tensors, const std::string& path, Candidates candidates)
      : tensors_(tensors), path_(path), candidates_(std::move(candidates)) {}

  const Candidate& select(const std::optional<std::string>& type) {
    keep_complete(projections_of);
    keep_most_specific();
    if (type) keep_type(*type);
    keep_complete(extras_of);
    if (candidates_.size() > 1) keep_explaining();
    if (candidates_.size() > 1) {
      fail("these names are shared by ", names_of(candidates_),
           "; config.json's model_type must tell which, and there is none");
    }
    const Candidate& chosen = candidates_.front();
    if (const SafetensorsEntry* stranger = unexpected_tensor(tensors_, path_, *chosen.naming)) {
      fail("family ", chosen.family->name, " has no such tensor as ", quote(stranger->name), " ", to_string(stranger->shape));
    }
    return chosen;
  }

 private:
  template <typename Condition>
  Candidates filtered(Condition condition) const {
    Candidates kept;
    std::copy_if(candidates_.begin(), candidates_.end(), std::back_inserter(kept), condition);
    return kept;
  }

  void keep_complete(Names (*names_of_naming)(const Naming&)) {
    const auto missing = [&](const Candidate& c) { return missing_tensor(tensors_, path_, names_of_naming(*c.naming)); };
    Candidates kept = filtered([&](const Candidate& c) { return missing(c).empty(); });
    if (kept.empty()) {
      fail("there is ", first_weight(*candidates_.front().naming), " but no ", missing(candidates_.front()),
           ": part of a checkpoint, or an architecture that is not known");
    }
    candidates_ = std::move(kept);
  }

  void keep_most_specific() {
    std::size_t longest = 0;
    for (const Candidate& c : candidates_) longest = std::max(longest, components(c.naming->block).size());
    candidates_ = filtered([&](const Candidate& c) { return components(c.naming->block).size() == longest; });
  }

  void keep_type(const std::string& type) {
    Candidates kept = filtered([&](const Candidate& c) {
      const auto& types = c.family->model_types;
      return types.empty() || std::find(types.begin(), types.end(), type) != types.end();
    });
    if (kept.empty()) {
      fail("the names are those of ", names_of(candidates_), ", but config.json's model_type ", quote(type),
           " is none of theirs");
    }
    candidates_ = std::move(kept);
  }

  void keep_explaining() {
    Candidates kept = filtered([&](const Candidate& c) { return unexpected_tensor(tensors_, path_, *c.naming) == nullptr; });
    if (!kept.empty()) candidates_ = std::move(kept);
  }

  const Safetensors& tensors_;
  const std::string& path_;
  Candidates candidates_;
};

[[noreturn]] void fail_unknown(const Safetensors& tensors) {
  constexpr std::size_t kShown = 6;
  const auto& entries = tensors.entries();
  std::string shown;
  for (std::size_t i = 0; i < std::min(entries.size(), kShown); ++i) {
    shown += concat(i == 0 ? "" : ", ", quote(entries[i].name), " ", to_string(entries[i].shape));
  }
  fail("no attention layer of a known family among ", entries.size(), " tensors", entries.empty() ? "" : ": ", shown,
       entries.size() > kShown ? " …" : "");
}

}  // namespace

std::vector<FoundBlock> find_blocks(const Safetensors& tensors, const Config& config) {
  auto candidates = find_candidates(tensors);
  if (candidates.empty()) fail_unknown(tensors);
  std::vector<std::pair<DepthKey, FoundBlock>> sorted;
  for (auto& [path, fitting] : candidates) {
    try {
      const Config scope = config_for(config, path);
      const auto type = model_type(scope);
      const Candidate chosen = Selection(tensors, path, std::move(fitting)).select(type ? type : model_type(config));
      sorted.emplace_back(depth_key(path, chosen.naming->cross),
                          FoundBlock{chosen.family, chosen.naming, {path, chosen.depth}, scope});
    } catch (const FormatError& error) {
      fail("layer ", quote(path), ": ", error.what());
    }
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<FoundBlock> blocks;
  for (auto& [key, block] : sorted) blocks.push_back(std::move(block));
  return blocks;
}

}  // namespace multihead::checkpoint
