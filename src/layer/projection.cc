#include "layer/projection.h"

#include <omp.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "base/message.h"
#include "base/parallel.h"
#include "base/scratch.h"

namespace multihead {
namespace {

// One work item is at most kTileRows rows times kTileColumns columns of y, computed by one thread: where oneDNN cuts a product
// among threads itself it also splits sums, and the bits follow the number of threads.
//
// kRowStep: oneDNN's AVX2 and AVX kernels work on 6 rows at a time and add up a remainder of 1 to 3 rows in another order, so
// the last rows are padded to whole sixes. kTileRows is a multiple of 6 below the 64 rows where those kernels cut once more.
// With that every row goes through the same instructions (checked for AVX-512, AVX2, AVX and SSE4.1 kernels, and by a test on
// each machine). 48 rows by 128 columns reach the speed of one large call; fewer columns would read x more often than need be.
constexpr Index kRowStep = 6;
constexpr Index kTileRows = 48;
constexpr Index kTileColumns = 128;

using dnnl::memory;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc rows_desc(Index rows, Index columns, Index stride) {
  return {memory::dims{rows, columns}, memory::data_type::f32, memory::dims{stride, 1}};
}

dnnl::matmul::primitive_desc describe_product(const memory::desc& x, const memory::desc& weight, const memory::desc& bias,
                                              const memory::desc& y) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);  // the library's own would tie a primitive to one thread
#if DNNL_VERSION_MAJOR >= 3
  return {cpu(), x, weight, bias, y, attributes};
#else
  return {dnnl::matmul::desc(x, weight, bias, y), attributes, cpu()};
#endif
}

memory reference_to(const memory::desc& desc, const float* data) { return {desc, cpu(), const_cast<float*>(data)}; }

// While it lives, oneDNN called from this thread uses this thread only. Inside a parallel region it does so anyway.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// [rows of one tile, in] x [in, columns of one block] and where its parts lie.
struct Product {
  dnnl::matmul primitive;
  memory::desc x, y, scratchpad;
};

// kTileColumns columns of y, or what is left of them at the end.
struct Block {
  Index columns = 0;
  memory weight, bias;
  Product tile, step;  ///< kTileRows and kRowStep rows at once
};

// The rows that fill no whole step, followed by zeros up to one.
Tensor padded_rows(const float* x, Index rows, Index width) {
  Tensor padded(DType::kF32, {kRowStep, width});
  std::copy_n(x, rows * width, padded.data<float>());
  return padded;
}

[[noreturn]] void rethrow(const dnnl::error& error, Index out, Index in) {
  throw Error(concat("Projection: weight [", out, ", ", in, "]: oneDNN says ", error.what()));
}

}  // namespace

struct Projection::Packed {
  Index in = 0, out = 0;
  Tensor bias;
  std::vector<Block> blocks;

  Product make_product(Index rows, const Block& block, const memory::desc& weight) const;
  void add_block(const float* weight, Index columns);
  void multiply(const Product& product, const Block& block, const float* x, float* y) const;
};

Product Projection::Packed::make_product(Index rows, const Block& block, const memory::desc& weight) const {
  const memory::desc x = rows_desc(rows, in, in), y = rows_desc(rows, block.columns, out);
  const auto description = describe_product(x, weight, block.bias.get_desc(), y);
  return {dnnl::matmul(description), x, y, description.scratchpad_desc()};
}

// Packs `columns` rows of the weight, [columns, in] dense, as oneDNN likes them for this product.
void Projection::Packed::add_block(const float* weight, Index columns) {
  Block block;
  block.columns = columns;
  const Index first = static_cast<Index>(blocks.size()) * kTileColumns;
  block.bias = reference_to(rows_desc(1, columns, columns), bias.data<float>() + first);
  const memory::desc any({in, columns}, memory::data_type::f32, memory::format_tag::any);
  const memory::desc packed =
      describe_product(rows_desc(kTileRows, in, in), any, block.bias.get_desc(), rows_desc(kTileRows, columns, out))
          .weights_desc();
  block.weight = memory(packed, cpu());
  memory plain = reference_to({memory::dims{in, columns}, memory::data_type::f32, memory::dims{1, in}}, weight);
  dnnl::stream stream(cpu());
  dnnl::reorder(plain, block.weight).execute(stream, plain, block.weight);
  stream.wait();
  block.tile = make_product(kTileRows, block, packed);
  block.step = make_product(kRowStep, block, packed);
  blocks.push_back(std::move(block));
}

// One product, on this thread.
void Projection::Packed::multiply(const Product& product, const Block& block, const float* x, float* y) const {
  float* const scratchpad = thread_scratch(product.scratchpad.get_size() / sizeof(float) + 1);
  dnnl::stream stream(cpu());
  product.primitive.execute(stream, {{DNNL_ARG_SRC, reference_to(product.x, x)},
                                     {DNNL_ARG_WEIGHTS, block.weight},
                                     {DNNL_ARG_BIAS, block.bias},
                                     {DNNL_ARG_DST, memory(product.y, cpu(), y)},
                                     {DNNL_ARG_SCRATCHPAD, memory(product.scratchpad, cpu(), scratchpad)}});
  stream.wait();
}

Projection::Projection(const ConstTensorView& weight, const ConstTensorView& bias) {
  auto packed = std::make_shared<Packed>();
  packed->out = weight.shape[0];
  packed->in = weight.shape[1];
  packed->bias = bias.data == nullptr ? Tensor(DType::kF32, {packed->out}) : Tensor::converted(bias, DType::kF32);
  const bool is_ready = weight.dtype == DType::kF32 && weight.is_contiguous();
  const Tensor converted = is_ready ? Tensor() : Tensor::converted(weight, DType::kF32);
  const float* rows = is_ready ? weight.as<float>() : converted.data<float>();
  try {
    const OneThread one_thread;
    for (Index first = 0; first < packed->out; first += kTileColumns) {
      packed->add_block(rows + first * packed->in, std::min(kTileColumns, packed->out - first));
    }
  } catch (const dnnl::error& error) {
    rethrow(error, packed->out, packed->in);
  }
  packed_ = std::move(packed);
}

Index Projection::input_width() const { return packed_->in; }
Index Projection::output_width() const { return packed_->out; }

void Projection::apply(const float* x, Index rows, float* y) const {
  const Packed& packed = *packed_;
  if (rows == 0) return;
  const Index tiles = (rows + kTileRows - 1) / kTileRows;
  const Index rest = rows % kRowStep;
  const Index whole = rows - rest;
  const Tensor last_rows = padded_rows(x + whole * packed.in, rest, packed.in);
  Tensor last_results = Tensor::uninitialized(DType::kF32, {kRowStep, packed.out});
  // Blocks outermost: consecutive items share a block of the weight.
  const Index items = static_cast<Index>(packed.blocks.size()) * tiles;
  const auto compute = [&](Index item, int) {
    const auto index = static_cast<std::size_t>(item / tiles);
    const Block& block = packed.blocks[index];
    const Index column = static_cast<Index>(index) * kTileColumns;
    const auto multiply = [&](const Product& product, Index row) {
      packed.multiply(product, block, x + row * packed.in, y + row * packed.out + column);
    };
    const Index begin = item % tiles * kTileRows, end = std::min(begin + kTileRows, whole);
    if (end - begin == kTileRows) return multiply(block.tile, begin);
    for (Index row = begin; row < end; row += kRowStep) multiply(block.step, row);
    if (rest > 0) packed.multiply(block.step, block, last_rows.data<float>(), last_results.data<float>() + column);
  };
  try {
    const int threads = threads_for(items);
    const OneThread one_thread;
    parallel_for(items, threads, compute);
  } catch (const dnnl::error& error) {
    rethrow(error, packed.out, packed.in);
  }
  std::copy_n(last_results.data<float>(), rest * packed.out, y + whole * packed.out);
}

}  // namespace multihead
