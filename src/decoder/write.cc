#include <utility>

#include "base/message.h"
#include "decoder/files.h"
#include "decoder/weights.h"
#include "io/atomic_file.h"
#include "multihead/decoder.h"

namespace multihead {

void write_decoder(const std::filesystem::path& folder, const DecoderConfig& config, const DecoderWeights& weights,
                   DType dtype) {
  require(is_attention_dtype(dtype), "write_decoder: dtype: expected f32, f16 or bf16; got ", name_of(dtype));
  const DecoderConfig checked = decoder::checked_config(config);
  decoder::check_weights(checked, weights);
  const std::string text = decoder::config_text(checked, dtype);

  std::vector<std::pair<std::string, Tensor>> rounded;
  for_each_weight(weights, [&](const std::string& name, const Tensor& tensor) {
    rounded.emplace_back(name, Tensor::converted(tensor, dtype));
  });
  const std::vector<std::pair<std::string, ConstTensorView>> views(rounded.begin(), rounded.end());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw IoError(concat(folder.string(), ": ", error.message()));
  write_safetensors(folder / "model.safetensors", views, {{"format", "pt"}});
  AtomicFile file(folder / "config.json");
  file.write(text.data(), text.size());
  file.commit();
}

}  // namespace multihead
