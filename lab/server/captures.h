// The captures that the server was started with, and what it keeps of their maps: finished tiles, swept pyramids, statistics.
#pragma once

#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lab/server/tile_code.h"
#include "lab/server/worker.h"
#include "multihead/observe.h"

namespace multihead::lab {

/// Beside the captures themselves the server may hold so much: encoded tiles, and pyramids as far as they fit. The rest of the
/// 256 MiB that are promised is for tiles in the making and the program itself.
constexpr Index kTileMemory = Index{24} << 20, kPyramidMemory = Index{160} << 20;
/// A tile that takes more operations than this is not computed while somebody waits: until the sweep has come by, it is
/// sampled.
constexpr double kTileOperations = 3e9, kSampleOperations = 1e9;

/// A tile ready to be sent.
struct EncodedTile {
  std::string codes;
  std::string source;  ///< "recomputed", "sweep", "sampled", or "cache"
  double milliseconds = 0;
  Index sample_step = 1;
};

struct TileQuery {
  Index head = 0;
  TileAddress address;
  Pooling pooling = Pooling::kMax;
  /// The length of what the cell's largest coefficient carries, p ‖v_j W_O‖, instead of the coefficient.
  bool values = false;
  TileBits bits = TileBits::k16;
};

/// One batch entry of a capture file.
class OpenCapture {
 public:
  OpenCapture(std::string id, std::shared_ptr<const Capture> capture, Index batch, Worker& worker);

  const std::string& id() const { return id_; }
  const AttentionMap& map() const { return map_; }
  /// Every row sees the keys up to its own position, and nothing else hides any: V(i) needs no asking.
  bool plainly_causal() const;

  EncodedTile tile(const TileQuery& query);
  /// ‖v_j W_O‖ of a head, computed once.
  std::shared_ptr<const std::vector<float>> norms(Index head);

  /// Starts the sweep of a head unless its coarse tiles are cheap or swept. Returns the share done: 1 when nothing is missing.
  double sweep(Index head);
  /// Statistics of a head without per-key parts, or none yet: then they are put in the queue.
  std::shared_ptr<const HeadStatistics> statistics(Index head);
  std::string failure(Index head) const;

 private:
  Tile compute(const TileQuery& query, EncodedTile& encoded);
  std::shared_ptr<const Pyramid> pyramid(Index head);
  bool is_cheap(const TileAddress& address) const;
  void keep(const std::string& key, const EncodedTile& tile);

  std::string id_;
  AttentionMap map_;
  Worker& worker_;
  std::mutex mutex_;                                      // of everything below
  std::mutex computing_;                                  // one tile at a time has all threads
  std::list<std::pair<std::string, EncodedTile>> tiles_;  // the last used first
  std::unordered_map<std::string, std::list<std::pair<std::string, EncodedTile>>::iterator> tile_at_;
  Index tile_bytes_ = 0;
  std::list<std::pair<Index, std::shared_ptr<const Pyramid>>> pyramids_;
  std::map<Index, std::shared_ptr<const HeadStatistics>> statistics_;
  std::map<Index, std::shared_ptr<const std::vector<float>>> norms_;
};

class Captures {
 public:
  /// Reads the files. Throws FormatError and IoError that name them.
  explicit Captures(const std::vector<std::filesystem::path>& paths);

  const std::vector<std::unique_ptr<OpenCapture>>& all() const { return captures_; }
  /// Null for an id that is not there.
  OpenCapture* find(const std::string& id) const;

 private:
  std::vector<std::unique_ptr<OpenCapture>> captures_;
  std::unique_ptr<Worker> worker_ = std::make_unique<Worker>();  // after what it works on, so that it ends before it
};

}  // namespace multihead::lab
