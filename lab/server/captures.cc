#include "lab/server/captures.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace multihead::lab {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// Letters, digits, - and _ of a file's name: what an address needs no signs for.
std::string slug(const std::string& name) {
  std::string result;
  for (const char c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
    result += plain ? c : '-';
  }
  return result.empty() ? "capture" : result;
}

std::string key_of(const TileQuery& query) {
  std::string key;
  for (const Index part : {query.head, Index{query.address.z}, query.address.x, query.address.y,
                           static_cast<Index>(query.pooling), Index{query.values}, static_cast<Index>(query.bits)}) {
    key += std::to_string(part) + "/";
  }
  return key;
}

// Each cell becomes what its largest coefficient carries.
void weigh(Tile& tile, const std::vector<float>& norms) {
  for (std::size_t i = 0; i < tile.state.size(); ++i) {
    if (tile.state[i] != CellState::kValue) continue;
    tile.log2[i] = tile.max_log2[i] + std::log2(norms[static_cast<std::size_t>(tile.max_key[i])]);
  }
}

}  // namespace

OpenCapture::OpenCapture(std::string id, std::shared_ptr<const Capture> capture, Index batch, Worker& worker)
    : id_(std::move(id)), map_(std::move(capture), batch), worker_(worker) {}

bool OpenCapture::plainly_causal() const {
  const AttentionOptions& options = map_.capture().options;
  return options.causal && !options.window && options.key_lengths.empty() && !options.mask && !options.attention_bias &&
         !options.packed;
}

bool OpenCapture::is_cheap(const TileAddress& address) const {
  const auto side = static_cast<double>(map_.cell_size(address.z) * kTileCells);
  const double rows = std::min(side, static_cast<double>(map_.query_len())),
               keys = std::min(side, static_cast<double>(map_.key_len()));
  return 2 * rows * keys * static_cast<double>(map_.capture().head_dim()) <= kTileOperations;
}

std::shared_ptr<const Pyramid> OpenCapture::pyramid(Index head) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(pyramids_.begin(), pyramids_.end(), [&](const auto& entry) { return entry.first == head; });
  if (found == pyramids_.end()) return nullptr;
  pyramids_.splice(pyramids_.begin(), pyramids_, found);
  return pyramids_.front().second;
}

double OpenCapture::sweep(Index head) {
  if (is_cheap({0, 0, 0}) || pyramid(head)) return 1;
  const std::string key = id_ + "/sweep/" + std::to_string(head);
  worker_.add(key, true, [this, head](const Progress& progress) {
    {
      // Room first: two pyramids of the largest kind do not fit.
      const std::lock_guard lock(mutex_);
      Index held = 0;
      for (const auto& entry : pyramids_) held += entry.second->bytes();
      const Index next = pyramids_.empty() ? 0 : pyramids_.front().second->bytes();
      while (!pyramids_.empty() && held + next > kPyramidMemory) {
        held -= pyramids_.back().second->bytes();
        pyramids_.pop_back();
      }
    }
    auto swept = std::make_shared<const Pyramid>(map_, head, progress);
    const std::lock_guard lock(mutex_);
    pyramids_.emplace_front(head, std::move(swept));
  });
  // Swept is not yet kept: 1 is for those who can ask for its tiles.
  return std::clamp(worker_.progress(key), 0.0, 0.99);
}

std::shared_ptr<const HeadStatistics> OpenCapture::statistics(Index head) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = statistics_.find(head); found != statistics_.end()) return found->second;
  }
  worker_.add(id_ + "/statistics/" + std::to_string(head), false, [this, head](const Progress& progress) {
    StatisticsRequest request;
    request.heads = {head};
    request.columns = request.distance_profile = request.histogram = false;
    std::vector<HeadStatistics> result = multihead::statistics(map_, request, progress);
    result.front().rows = {};  // [query_len] each, and nobody here reads them
    result.front().value_norms = {};
    const std::lock_guard lock(mutex_);
    statistics_[head] = std::make_shared<const HeadStatistics>(std::move(result.front()));
  });
  return nullptr;
}

std::string OpenCapture::failure(Index head) const {
  const std::string sweep = worker_.failure(id_ + "/sweep/" + std::to_string(head));
  return sweep.empty() ? worker_.failure(id_ + "/statistics/" + std::to_string(head)) : sweep;
}

std::shared_ptr<const std::vector<float>> OpenCapture::norms(Index head) {
  const std::lock_guard lock(mutex_);
  auto& norms = norms_[head];
  if (!norms) norms = std::make_shared<const std::vector<float>>(value_norms(map_, head));
  return norms;
}

Tile OpenCapture::compute(const TileQuery& query, EncodedTile& encoded) {
  if (const auto swept = pyramid(query.head); swept && query.address.z <= swept->max_zoom()) {
    encoded.source = "sweep";
    return swept->tile(query.address, query.pooling);
  }
  const TileRequest request = map_.tile_request(query.address, query.pooling);
  const std::lock_guard lock(computing_);
  if (is_cheap(query.address)) {
    encoded.source = "recomputed";
    return map_.tile(query.head, request);
  }
  encoded.source = "sampled";
  const double all = 2 * static_cast<double>(request.rows.size()) * static_cast<double>(request.keys.size()) *
                     static_cast<double>(map_.capture().head_dim());
  encoded.sample_step = static_cast<Index>(std::ceil(std::sqrt(all / kSampleOperations)));
  return map_.sampled_tile(query.head, request, encoded.sample_step);
}

EncodedTile OpenCapture::tile(const TileQuery& query) {
  const auto start = std::chrono::steady_clock::now();
  const std::string key = key_of(query);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = tile_at_.find(key); found != tile_at_.end()) {
      tiles_.splice(tiles_.begin(), tiles_, found->second);
      EncodedTile tile = tiles_.front().second;
      tile.source = "cache";
      tile.milliseconds = milliseconds_since(start);
      return tile;
    }
  }
  EncodedTile encoded;
  Tile tile = compute(query, encoded);
  if (query.values) weigh(tile, *norms(query.head));
  encoded.codes = encode(tile.log2.data(), tile.state.data(), tile.log2.size(), query.bits);
  encoded.milliseconds = milliseconds_since(start);
  if (encoded.source != "sampled") keep(key, encoded);
  return encoded;
}

void OpenCapture::keep(const std::string& key, const EncodedTile& tile) {
  const std::lock_guard lock(mutex_);
  if (tile_at_.contains(key)) return;
  tiles_.emplace_front(key, tile);
  tile_at_[key] = tiles_.begin();
  tile_bytes_ += static_cast<Index>(tile.codes.size());
  while (tile_bytes_ > kTileMemory) {
    tile_bytes_ -= static_cast<Index>(tiles_.back().second.codes.size());
    tile_at_.erase(tiles_.back().first);
    tiles_.pop_back();
  }
}

Captures::Captures(const std::vector<std::filesystem::path>& paths) {
  for (const auto& path : paths) {
    const auto capture = std::make_shared<const Capture>(load_capture(path));
    for (Index batch = 0; batch < capture->batch(); ++batch) {
      const std::string name = slug(path.stem().string()) + (capture->batch() > 1 ? "-" + std::to_string(batch) : "");
      std::string id = name;
      for (int copy = 2; find(id) != nullptr || id == "api" || id == "text"; ++copy) id = name + "-" + std::to_string(copy);
      captures_.push_back(std::make_unique<OpenCapture>(id, capture, batch, *worker_));
    }
  }
}

OpenCapture* Captures::find(const std::string& id) const {
  const auto found = std::find_if(captures_.begin(), captures_.end(), [&](const auto& capture) { return capture->id() == id; });
  return found == captures_.end() ? nullptr : found->get();
}

}  // namespace multihead::lab
