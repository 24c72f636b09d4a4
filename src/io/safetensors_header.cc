#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "io/dense.h"
#include "io/json.h"
#include "io/safetensors_types.h"
#include "io/text.h"

namespace multihead {
namespace {

constexpr std::size_t kLengthBytes = 8;
// Each costs about 100 bytes of memory and as few as 8 of header. Real files have a few, some adapters a thousand.
constexpr std::size_t kMaxMetadata = 1'000'000;

[[noreturn]] void refuse_tensor(const std::string& file, const std::string& name, const std::string& rule) {
  refuse(file, "tensor ", quote(name), ": ", rule);
}

// {name: {"dtype": string, "shape": [integers], "data_offsets": [begin, end]}, …, "__metadata__": {string: string}}
class HeaderEvents final : public JsonEvents {
 public:
  HeaderEvents(const std::string& file, SafetensorsHeader& header) : file_(file), header_(header) {}

  void begin(char bracket) override {
    if (where_ == Where::kStart && bracket == '{') {
      where_ = Where::kRoot;
    } else if (where_ == Where::kRoot && bracket == '{') {
      where_ = in_metadata_ ? Where::kMetadata : Where::kEntry;
    } else if (where_ == Where::kEntry && bracket == '[' && field_ != Field::kDtype) {
      where_ = Where::kArray;
      values_ = 0;
    } else {
      unexpected(bracket == '{' ? "an object" : "an array");
    }
  }

  void end() override {
    switch (where_) {
      case Where::kArray:
        where_ = Where::kEntry;
        if (field_ == Field::kShape) entry_.shape = Dims(std::span<const Index>(shape_.data(), values_));
        if (field_ == Field::kOffsets && values_ != 2)
          refuse_entry(concat("\"data_offsets\" must be [BEGIN, END]; got ", values_, " values"));
        break;
      case Where::kEntry:
        for (std::size_t field = 0; field < kFields.size(); ++field) {
          if (!seen_[field]) refuse_entry(concat("\"", kFields[field], "\" is missing"));
        }
        header_.entries.push_back(std::move(entry_));
        where_ = Where::kRoot;
        break;
      default:
        where_ = Where::kRoot;
        break;
    }
  }

  void key(std::string& text) override {
    if (where_ == Where::kEntry) return entry_key(text);
    if (where_ == Where::kMetadata) {
      if (header_.metadata.size() == kMaxMetadata) refuse(file_, kMetadataKey, " has more than ", kMaxMetadata, " pairs");
      const auto [place, is_new] = header_.metadata.try_emplace(std::move(text));
      if (!is_new) refuse(file_, kMetadataKey, ": duplicate key ", quote(place->first));
      metadata_ = place;
      return;
    }
    in_metadata_ = text == kMetadataKey;
    if (in_metadata_ && std::exchange(has_metadata_, true)) refuse(file_, "duplicate ", kMetadataKey);
    entry_ = {};
    entry_.name = std::move(text);
    seen_ = {};
  }

  void string(std::string& text) override {
    if (where_ == Where::kMetadata) {
      metadata_->second = std::move(text);
    } else if (where_ == Where::kEntry && field_ == Field::kDtype) {
      const SafetensorsType* type = find_safetensors_type(text);
      if (type == nullptr) refuse_entry(concat("unknown dtype ", quote(text)));
      entry_.dtype_name = type->name;
      entry_.dtype = type->dtype;
    } else {
      unexpected("the string " + quote(text));
    }
  }

  void number(std::uint64_t value) override {
    if (where_ != Where::kArray) return unexpected(std::to_string(value));
    if (field_ == Field::kOffsets) {
      if (values_ < 2) (values_ == 0 ? entry_.begin : entry_.end) = value;
      ++values_;  // counted beyond 2 for the error's text
      return;
    }
    if (values_ == shape_.size())
      refuse_entry(concat("\"shape\" has more than ", Dims::kMaxRank, " axes, the most that a tensor here can have"));
    if (value > INT64_MAX) refuse_entry(concat("\"shape\" overflows: an extent of ", value));
    shape_[values_++] = static_cast<Index>(value);
  }

  void other(const std::string& text) override { unexpected(text.substr(0, 40)); }

 private:
  enum class Where { kStart, kRoot, kMetadata, kEntry, kArray };
  enum class Field : std::size_t { kDtype, kShape, kOffsets };
  static constexpr std::array<std::string_view, 3> kFields{"dtype", "shape", "data_offsets"};

  void entry_key(const std::string& text) {
    const auto* known = std::find(kFields.begin(), kFields.end(), text);
    if (known == kFields.end()) refuse_entry(concat("unknown key ", quote(text), "; expected dtype, shape and data_offsets"));
    const auto field = static_cast<std::size_t>(known - kFields.begin());
    if (std::exchange(seen_[field], true)) refuse_entry(concat("duplicate key ", quote(text)));
    field_ = static_cast<Field>(field);
  }

  [[noreturn]] void refuse_entry(const std::string& rule) const { refuse_tensor(file_, entry_.name, rule); }

  // A value of the wrong kind, said in terms of the place where it stands.
  [[noreturn]] void unexpected(const std::string& got) const {
    switch (where_) {
      case Where::kStart:
        refuse(file_, "the header must be a JSON object; got ", got);
      case Where::kRoot:
        if (in_metadata_) refuse(file_, kMetadataKey, " must be an object of strings; got ", got);
        refuse_entry(concat("must be an object with dtype, shape and data_offsets; got ", got));
      case Where::kMetadata:
        refuse(file_, kMetadataKey, ": the value of ", quote(metadata_->first), " must be a string; got ", got);
      case Where::kEntry:
      case Where::kArray:
        break;
    }
    constexpr std::array<std::string_view, 3> kExpected{"a string", "an array of non-negative integers",
                                                        "two non-negative integers"};
    const auto field = static_cast<std::size_t>(field_);
    refuse_entry(concat("\"", kFields[field], "\" must be ", kExpected[field], "; got ", got));
  }

  const std::string& file_;
  SafetensorsHeader& header_;
  Where where_ = Where::kStart;
  bool has_metadata_ = false;
  bool in_metadata_ = false;  // the key of the root that was last seen is the metadata's
  std::map<std::string, std::string>::iterator metadata_;
  SafetensorsEntry entry_;
  std::array<bool, 3> seen_{};
  Field field_ = Field::kDtype;
  std::array<Index, Dims::kMaxRank> shape_{};
  std::size_t values_ = 0;
};

// Rule: END - BEGIN is what shape and dtype take.
void check_size(const std::string& file, const SafetensorsEntry& entry) {
  if (entry.begin > entry.end)
    refuse_tensor(file, entry.name, concat("\"data_offsets\" run backward: [", entry.begin, ", ", entry.end, "]"));
  const auto bits = bits_of(entry.shape, find_safetensors_type(entry.dtype_name)->bits);
  const std::uint64_t held = entry.end - entry.begin;
  if (bits && *bits % 8 == 0 && *bits / 8 == held) return;
  const std::string what = concat("shape ", to_string(entry.shape), " of ", entry.dtype_name);
  if (!bits) refuse_tensor(file, entry.name, what + " overflows: more bytes than a file can have");
  if (*bits % 8 != 0) refuse_tensor(file, entry.name, what + " does not fill whole bytes");
  refuse_tensor(file, entry.name,
                concat("size mismatch: ", what, " takes ", *bits / 8, " bytes; \"data_offsets\" [", entry.begin, ", ",
                       entry.end, "] hold ", held));
}

// Rule: sorted by place, the tensors cover the data section without hole or overlap, to its last byte.
void check_coverage(const std::string& file, const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(entries[a].begin, entries[a].end) < std::pair(entries[b].begin, entries[b].end);
  });
  std::uint64_t end = 0;
  for (const std::size_t i : order) {
    const SafetensorsEntry& entry = entries[i];
    if (entry.begin != end) {
      refuse_tensor(file, entry.name,
                    concat(entry.begin > end ? "hole" : "overlap", ": its data begin at ", entry.begin,
                           "; the data before it end at ", end));
    }
    end = entry.end;
    if (end > data_bytes) {
      refuse_tensor(file, entry.name,
                    concat("truncated: its data end at ", end, "; the file's data section has ", data_bytes, " bytes"));
    }
  }
  if (end != data_bytes)
    refuse(file, "trailing bytes: the tensors' data end at ", end, "; the data section has ", data_bytes, " bytes");
}

// The JSON text, whose length the file states in its first 8 bytes.
std::string read_text(const ByteSource& source) {
  const std::string& file = source.name();
  if (source.size() < kLengthBytes)
    refuse(file, "too short for a safetensors file: expected at least 8 bytes; got ", source.size());
  refuse_lfs_pointer(source);
  std::array<unsigned char, kLengthBytes> head{};
  source.read(0, head.data(), head.size());
  std::uint64_t length = 0;
  for (std::size_t i = head.size(); i-- > 0;) length = length << 8 | head[i];
  const auto bytes = [&] { return quote(std::string_view(reinterpret_cast<const char*>(head.data()), head.size())); };
  if (length > kMaxSafetensorsHeader) {
    refuse(file, "header too large: ", length, " bytes; the limit is ", kMaxSafetensorsHeader,
           " (not a safetensors file? It begins with ", bytes(), ")");
  }
  if (length > source.size() - kLengthBytes) {
    refuse(file, "truncated: the header takes ", length, " bytes; only ", source.size() - kLengthBytes, " follow its length");
  }
  if (length == 0) refuse(file, "empty header: expected at least \"{}\"");
  std::string text(static_cast<std::size_t>(length), '\0');
  source.read(kLengthBytes, text.data(), text.size());
  return text;
}

}  // namespace

SafetensorsHeader read_safetensors_header(const ByteSource& source) {
  const std::string& file = source.name();
  SafetensorsHeader header;
  {
    const std::string text = read_text(source);
    HeaderEvents events(file, header);
    parse_json(text, file, events);
    header.data_begin = kLengthBytes + text.size();
  }
  auto& entries = header.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != entries.end()) refuse_tensor(file, twice->name, "duplicate: the name stands in the header more than once");
  for (const SafetensorsEntry& entry : entries) check_size(file, entry);
  check_coverage(file, entries, source.size() - header.data_begin);
  return header;
}

Tensor read_safetensors_entry(const ByteSource& source, std::uint64_t data_begin, const SafetensorsEntry& entry) {
  if (!entry.dtype)
    refuse_tensor(source.name(), entry.name, concat("dtype ", entry.dtype_name, " cannot be read into a tensor"));
  Tensor tensor = Tensor::uninitialized(*entry.dtype, entry.shape);
  auto* data = tensor.data<unsigned char>();
  const auto bytes = static_cast<std::size_t>(entry.end - entry.begin);
  source.read(data_begin + entry.begin, data, bytes);
  // A bool that is neither 0 nor 1 in memory is undefined behaviour.
  if (entry.dtype == DType::kBool) std::transform(data, data + bytes, data, [](unsigned char byte) { return byte != 0; });
  return tensor;
}

std::string safetensors_header_text(const std::vector<SafetensorsEntry>& entries,
                                    const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += concat(json_string(kMetadataKey), ":");
    char separator = '{';
    for (const auto& [key, value] : metadata) {
      text += concat(separator, json_string(key), ":", json_string(value));
      separator = ',';
    }
    text += '}';
  }
  for (const SafetensorsEntry& entry : entries) {
    if (text.size() > 1) text += ',';
    text += concat(json_string(entry.name), ":{\"dtype\":\"", entry.dtype_name, "\",\"shape\":[");
    for (int axis = 0; axis < entry.shape.rank(); ++axis) text += concat(axis > 0 ? "," : "", entry.shape[axis]);
    text += concat("],\"data_offsets\":[", entry.begin, ",", entry.end, "]}");
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace multihead
