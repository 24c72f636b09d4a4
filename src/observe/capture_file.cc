// Captures as safetensors files: docs/file_formats.md. Tensors hold all numbers that must come back to the last bit; options
// and labels are JSON in the metadata.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/message.h"
#include "io/text.h"
#include "multihead/capture.h"
#include "multihead/io.h"

namespace multihead {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "multihead.capture";
constexpr int kVersion = 1;

// ---- writing ----------------------------------------------------------------------------------------------------------------

Json list_of(const Dims& dims) { return std::vector<Index>(dims.begin(), dims.end()); }

// How a mask or bias lies in its memory, which is stored as rank 1.
Json layout_of(const ConstTensorView& view, const Tensor& memory) {
  const auto bytes = static_cast<const unsigned char*>(view.data) - memory.data<unsigned char>();
  return {{"shape", list_of(view.shape)},
          {"strides", list_of(view.strides)},
          {"origin", view.size() == 0 ? 0 : bytes / static_cast<Index>(size_of(view.dtype))}};
}

Json options_of(const AttentionOptions& options, const Capture& masks) {
  Json json = Json::object();
  if (options.scale) json["scale"] = static_cast<double>(*options.scale);
  if (options.softcap) json["softcap"] = static_cast<double>(*options.softcap);
  if (options.causal) json["causal"] = true;
  if (options.top_left) json["top_left"] = true;
  if (!options.query_offsets.empty()) json["query_offsets"] = options.query_offsets;
  if (!options.key_lengths.empty()) json["key_lengths"] = options.key_lengths;
  if (options.window) {
    json["window"] = Json::object();
    if (options.window->left) json["window"]["left"] = *options.window->left;
    if (options.window->right) json["window"]["right"] = *options.window->right;
  }
  if (options.packed) {
    json["packed"] = {{"query_starts", options.packed->query_starts}, {"key_starts", options.packed->key_starts}};
  }
  if (options.mask) json["mask"] = layout_of(*masks.options.mask, masks.mask_memory);
  if (options.attention_bias) json["attention_bias"] = layout_of(*masks.options.attention_bias, masks.bias_memory);
  return json;
}

Json labels_of(const CaptureLabels& labels) {
  const auto checked = [](const std::string& text, const char* name) {
    require(is_utf8(text), "save_capture: labels.", name, ": expected UTF-8; got ", quote(text));
    return text;
  };
  Json json = Json::object();
  json["name"] = checked(labels.name, "name");
  json["model"] = checked(labels.model, "model");
  json["positions"] = checked(labels.positions, "positions");
  json["layer"] = labels.layer;
  for (const std::string& token : labels.query_tokens) json["query_tokens"].push_back(checked(token, "query_tokens"));
  for (const std::string& token : labels.key_tokens) json["key_tokens"].push_back(checked(token, "key_tokens"));
  return json;
}

// ---- reading ----------------------------------------------------------------------------------------------------------------

// One JSON value with a place for complaints. Everything is refused that is not exactly what version 1 says.
class Field {
 public:
  Field(const std::string& file, std::string place, const Json& json) : file_(file), place_(std::move(place)), json_(json) {}

  /// Calls with the key and value of every member.
  template <typename Member>
  void for_each_member(const Member& member) const {
    if (!json_.is_object()) refuse_type("an object");
    for (const auto& [key, value] : json_.items()) member(key, Field(file_, place_ + "." + printable(key), value));
  }
  bool boolean() const {
    if (!json_.is_boolean()) refuse_type("true or false");
    return json_.get<bool>();
  }
  Index integer() const {
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<Index>::max());
    if (!json_.is_number_integer() || (json_.is_number_unsigned() && json_.get<std::uint64_t>() > kLargest)) {
      refuse_type("an integer of 64 bits");
    }
    return json_.get<Index>();
  }
  float real() const {
    const double value = json_.is_number() ? json_.get<double>() : HUGE_VAL;
    if (!std::isfinite(static_cast<float>(value))) refuse_type("a finite number");
    return static_cast<float>(value);
  }
  std::string string() const {
    if (!json_.is_string()) refuse_type("a string");
    return json_.get<std::string>();
  }
  template <typename Element>
  auto list(const Element& element) const {
    if (!json_.is_array()) refuse_type("a list");
    std::vector<decltype(element(*this))> values;
    for (const Json& value : json_)
      values.push_back(element(Field(file_, place_ + "[" + std::to_string(values.size()) + "]", value)));
    return values;
  }
  std::vector<Index> integers() const {
    return list([](const Field& value) { return value.integer(); });
  }
  std::vector<std::string> strings() const {
    return list([](const Field& value) { return value.string(); });
  }
  template <typename... Parts>
  [[noreturn]] void refuse_as(const Parts&... parts) const {
    refuse(file_, "metadata: ", place_, ": ", parts...);
  }
  [[noreturn]] void refuse_unknown() const {
    refuse_as("not known to version ", kVersion, " of the format; leaving it out could change coefficients");
  }

 private:
  [[noreturn]] void refuse_type(const char* expected) const {
    refuse_as("expected ", expected, "; got ", quote(json_.dump(-1, ' ', true, Json::error_handler_t::replace)));
  }

  const std::string& file_;
  std::string place_;
  const Json& json_;
};

Json parse(const std::string& file, const char* place, const std::string& text) {
  const auto limit = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > 8) refuse(file, "metadata: ", place, ": nested deeper than 8 levels");
    return true;
  };
  try {
    return Json::parse(text, limit);
  } catch (const Json::exception&) {
    refuse(file, "metadata: ", place, ": not valid JSON: ", quote(text));
  }
}

// The view of a mask or bias over its memory; every element must lie in it.
ConstTensorView layout_from(const Field& field, const Tensor& memory) {
  std::vector<Index> shape, strides;
  Index origin = 0;
  field.for_each_member([&](const std::string& key, const Field& value) {
    if (key == "shape") {
      shape = value.integers();
    } else if (key == "strides") {
      strides = value.integers();
    } else if (key == "origin") {
      origin = value.integer();
    } else {
      value.refuse_unknown();
    }
  });
  if (memory.rank() != 1 || shape.size() != strides.size() || shape.size() > Dims::kMaxRank || shape.empty()) {
    field.refuse_as("expected shape and strides of one length for a tensor of rank 1; got ", shape.size(), " and ",
                    strides.size(), " for ", memory.shape());
  }
  const ConstTensorView view(nullptr, memory.dtype(), Dims(shape), Dims(strides));
  Index low = origin, high = origin, size = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    Index reach = 0;
    const bool bad = shape[axis] < 0 || strides[axis] == std::numeric_limits<Index>::min() ||
                     __builtin_mul_overflow(size, shape[axis], &size) ||
                     __builtin_mul_overflow(strides[axis], std::max<Index>(shape[axis], 1) - 1, &reach) ||
                     __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high);
    if (bad) field.refuse_as("the shape ", view.shape, " with strides ", view.strides, " reaches too far");
  }
  if (size > 0 && (low < 0 || high >= memory.size())) {
    field.refuse_as("elements ", low, " … ", high, " of a tensor of ", memory.size());
  }
  return {static_cast<const unsigned char*>(memory.data<void>()) +
              (size > 0 ? origin : 0) * static_cast<Index>(size_of(memory.dtype())),
          memory.dtype(), view.shape, view.strides};
}

void read_options(const Field& field, Capture& capture) {
  AttentionOptions& options = capture.options;
  field.for_each_member([&](const std::string& key, const Field& value) {
    if (key == "scale") {
      options.scale = value.real();
    } else if (key == "softcap") {
      options.softcap = value.real();
    } else if (key == "causal") {
      options.causal = value.boolean();
    } else if (key == "top_left") {
      options.top_left = value.boolean();
    } else if (key == "query_offsets") {
      options.query_offsets = value.integers();
    } else if (key == "key_lengths") {
      options.key_lengths = value.integers();
    } else if (key == "window") {
      options.window.emplace();
      value.for_each_member([&](const std::string& side, const Field& distance) {
        if (side != "left" && side != "right") distance.refuse_unknown();
        (side == "left" ? options.window->left : options.window->right) = distance.integer();
      });
    } else if (key == "packed") {
      options.packed.emplace();
      value.for_each_member([&](const std::string& side, const Field& starts) {
        if (side != "query_starts" && side != "key_starts") starts.refuse_unknown();
        (side == "query_starts" ? options.packed->query_starts : options.packed->key_starts) = starts.integers();
      });
    } else if (key == "mask") {
      options.mask = layout_from(value, capture.mask_memory);
    } else if (key == "attention_bias") {
      options.attention_bias = layout_from(value, capture.bias_memory);
    } else {
      value.refuse_unknown();
    }
  });
}

// Labels that this version does not know change no number and are passed over.
void read_labels(const Field& field, CaptureLabels& labels) {
  field.for_each_member([&](const std::string& key, const Field& value) {
    if (key == "name") labels.name = value.string();
    if (key == "model") labels.model = value.string();
    if (key == "positions") labels.positions = value.string();
    if (key == "layer") labels.layer = value.integer();
    if (key == "query_tokens") labels.query_tokens = value.strings();
    if (key == "key_tokens") labels.key_tokens = value.strings();
  });
}

void check_format(const std::string& file, const std::map<std::string, std::string>& metadata) {
  const auto format = metadata.find("format"), version = metadata.find("version");
  if (format == metadata.end() || format->second != kFormat) {
    refuse(file, "no capture: expected metadata format = ", quote(kFormat), "; got ",
           format == metadata.end() ? "none" : quote(format->second));
  }
  if (version == metadata.end() || version->second != std::to_string(kVersion)) {
    refuse(file, "expected version ", kVersion, " of the capture format; got ",
           version == metadata.end() ? "none" : quote(version->second), "; a newer multihead may read it");
  }
}

std::vector<float> floats_of(const std::string& file, const char* name, const Tensor& tensor) {
  if (tensor.rank() != 1 || tensor.dtype() != DType::kF32) {
    refuse(file, "tensor ", name, ": expected f32 of rank 1; got ", name_of(tensor.dtype()), " ", tensor.shape());
  }
  return {tensor.data<float>(), tensor.data<float>() + tensor.size()};
}

Capture read_tensors(const std::string& file, const Safetensors& tensors) {
  Capture capture;
  const std::map<std::string, Tensor*> places{{"query", &capture.query},      {"key", &capture.key},
                                              {"lse", &capture.lse},          {"value", &capture.value},
                                              {"output", &capture.output},    {"output_weight", &capture.output_weight},
                                              {"mask", &capture.mask_memory}, {"attention_bias", &capture.bias_memory}};
  for (const SafetensorsEntry& entry : tensors.entries()) {
    if (const auto place = places.find(entry.name); place != places.end()) {
      *place->second = tensors.read(entry.name);
    } else if (entry.name == "alibi_slopes") {
      capture.options.alibi_slopes = floats_of(file, "alibi_slopes", tensors.read(entry.name));
    } else if (entry.name == "sinks") {
      capture.options.sinks = floats_of(file, "sinks", tensors.read(entry.name));
    } else {
      refuse(file, "tensor ", quote(entry.name), " is none of a capture's");
    }
  }
  for (const char* name : {"query", "key", "lse"}) {
    if (tensors.find(name) == nullptr) refuse(file, "no tensor ", name, ", which every capture has");
  }
  return capture;
}

}  // namespace

void save_capture(const std::filesystem::path& path, const Capture& capture) {
  check(capture);
  // The options may point anywhere; what is written is what a copy would own.
  Capture masks;
  if (capture.options.mask) masks.own_mask(*capture.options.mask);
  if (capture.options.attention_bias) masks.own_bias(*capture.options.attention_bias);
  std::vector<std::pair<std::string, ConstTensorView>> tensors{
      {"query", capture.query}, {"key", capture.key}, {"lse", capture.lse}};
  if (capture.value.rank() > 0) tensors.emplace_back("value", capture.value);
  if (capture.output.rank() > 0) tensors.emplace_back("output", capture.output);
  if (capture.output_weight.rank() > 0) tensors.emplace_back("output_weight", capture.output_weight);
  if (capture.options.mask) tensors.emplace_back("mask", masks.mask_memory);
  if (capture.options.attention_bias) tensors.emplace_back("attention_bias", masks.bias_memory);
  const auto add_list = [&](const char* name, const std::vector<float>& values) {
    if (!values.empty()) tensors.emplace_back(name, ConstTensorView(values.data(), {static_cast<Index>(values.size())}));
  };
  add_list("alibi_slopes", capture.options.alibi_slopes);
  add_list("sinks", capture.options.sinks);
  write_safetensors(path, tensors,
                    {{"format", kFormat},
                     {"version", std::to_string(kVersion)},
                     {"options", options_of(capture.options, masks).dump()},
                     {"labels", labels_of(capture.labels).dump()}});
}

Capture load_capture(const std::filesystem::path& path) {
  const Safetensors tensors = Safetensors::open(path);
  const std::string file = printable(path.string());
  const std::map<std::string, std::string>& metadata = tensors.metadata();
  check_format(file, metadata);
  for (const char* key : {"options", "labels"}) {
    if (metadata.find(key) == metadata.end()) refuse(file, "metadata: no ", key);
  }
  const Json options = parse(file, "options", metadata.at("options")), labels = parse(file, "labels", metadata.at("labels"));
  Capture capture = read_tensors(file, tensors);
  read_options({file, "options", options}, capture);
  read_labels({file, "labels", labels}, capture.labels);
  if (capture.mask_memory.rank() > 0 && !capture.options.mask) refuse(file, "a tensor mask, but no mask in the options");
  if (capture.bias_memory.rank() > 0 && !capture.options.attention_bias) {
    refuse(file, "a tensor attention_bias, but no attention_bias in the options");
  }
  try {
    check(capture);
  } catch (const InvalidArgument& error) {
    refuse(file, "parts that do not fit each other: ", error.what());
  }
  return capture;
}

}  // namespace multihead
