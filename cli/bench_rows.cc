#include "bench_rows.h"

namespace multihead::cli {
namespace {

using Kind = BenchRow::Kind;

BenchRow prefill(Index num_heads, Index num_kv_heads, Index query_len, Index key_len, Index head_dim, bool causal = false) {
  BenchRow row;
  row.num_heads = num_heads;
  row.num_kv_heads = num_kv_heads;
  row.query_len = query_len;
  row.key_len = key_len;
  row.head_dim = head_dim;
  row.causal = causal;
  return row;
}

BenchRow with_strides(BenchRow row) {
  row.strided = true;
  return row;
}

BenchRow with_window(BenchRow row, Index window) {
  row.window = window;
  return row;
}

BenchRow with_dtype(BenchRow row, DType dtype) {
  row.dtype = dtype;
  return row;
}

BenchRow decode(Index num_heads, Index num_kv_heads, Index key_len, DType dtype) {
  BenchRow row = with_dtype(prefill(num_heads, num_kv_heads, 1, key_len, 128), dtype);
  row.kind = Kind::kDecode;
  return row;
}

BenchRow backward(BenchRow row) {
  row.kind = Kind::kBackward;
  return row;
}

BenchRow layer(const char* preset, Index length) {
  BenchRow row;
  row.kind = Kind::kLayer;
  row.preset = preset;
  row.query_len = row.key_len = length;
  return row;
}

// Lengths from a sentence to a book, the three usual widths of a head.
void add_sweep(std::vector<BenchRow>& rows) {
  for (const Index length : {32, 128, 512, 2048, 8192}) {
    for (const Index head_dim : {64, 80, 128}) {
      for (const bool causal : {false, true}) {
        rows.push_back(prefill(8, 8, length, length, head_dim, causal));
        const bool also_strided = (length == 512 || length == 2048) && head_dim != 80 && !causal;
        if (also_strided) rows.push_back(with_strides(rows.back()));
      }
    }
  }
}

// Shapes of models that people run, and what they ask for besides.
void add_models(std::vector<BenchRow>& rows) {
  rows.push_back(prefill(12, 12, 384, 384, 64));    // BERT base
  rows.push_back(prefill(20, 20, 1500, 1500, 64));  // Whisper large, encoder
  rows.push_back(prefill(8, 8, 4096, 77, 40));      // Stable Diffusion 1.5, cross attention
  rows.push_back(prefill(32, 8, 512, 512, 128, true));
  rows.push_back(prefill(32, 8, 2048, 2048, 128, true));  // Llama 3 8B, Mistral 7B
  rows.push_back(with_strides(rows.back()));
  rows.push_back(with_window(prefill(8, 8, 2048, 2048, 64), 128));
  rows.push_back(with_window(prefill(8, 8, 8192, 8192, 64, true), 1024));
  rows.push_back(with_window(prefill(32, 8, 8192, 8192, 128, true), 4096));
  for (const DType dtype : {DType::kF16, DType::kBF16}) rows.push_back(with_dtype(prefill(8, 8, 2048, 2048, 128), dtype));
}

void add_backward(std::vector<BenchRow>& rows) {
  for (const bool causal : {false, true}) rows.push_back(backward(prefill(8, 8, 1024, 1024, 64, causal)));
  for (const bool causal : {false, true}) rows.push_back(backward(prefill(8, 8, 2048, 2048, 128, causal)));
}

void add_decoding(std::vector<BenchRow>& rows) {
  for (const Index num_kv_heads : {32, 8}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      for (const Index key_len : {128, 512, 2048, 4096, 16384, 32768}) rows.push_back(decode(32, num_kv_heads, key_len, dtype));
    }
  }
}

}  // namespace

std::string BenchRow::name() const {
  if (kind == Kind::kLayer) return "layer/" + preset + "/n" + std::to_string(query_len);
  std::string name = kind == Kind::kPrefill ? "prefill/h" : kind == Kind::kBackward ? "backward/h" : "decode/h";
  name += std::to_string(num_heads);
  if (num_kv_heads != num_heads) name += "x" + std::to_string(num_kv_heads);
  if (kind != Kind::kDecode) {
    name += "/n" + std::to_string(query_len);
    if (key_len != query_len) name += "x" + std::to_string(key_len);
  } else {
    name += "/k" + std::to_string(key_len);
  }
  name += "/d" + std::to_string(head_dim);
  if (causal) name += "/causal";
  if (window) name += (causal ? "/last" : "/window") + std::to_string(*window);
  if (dtype != DType::kF32) name += "/" + std::string(name_of(dtype));
  if (strided) name += "/strided";
  return name;
}

std::vector<BenchRow> bench_rows() {
  std::vector<BenchRow> rows;
  add_sweep(rows);
  add_models(rows);
  add_backward(rows);
  add_decoding(rows);
  for (const char* preset : {"vaswani-base", "llama-7b"}) {
    for (const Index length : {1, 8, 128, 512, 2048}) rows.push_back(layer(preset, length));
  }
  return rows;
}

}  // namespace multihead::cli
