#include "picture/png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <memory>

#include "base/message.h"

namespace multihead::picture {
namespace {

// libpng is C and leaves through longjmp, which must not pass over a C++ object with a destructor. So everything that owns
// something lives in encode_png, and between setjmp and the last png_ call there are plain pointers only.
struct Failure {
  std::string text;
};

void on_error(png_structp png, png_const_charp message) {
  static_cast<Failure*>(png_get_error_ptr(png))->text = message;
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

// An exception must not pass through C either: a failed allocation becomes a failure of libpng's.
void append(png_structp png, png_bytep data, png_size_t size) {
  bool done = true;
  try {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(data), size);
  } catch (...) {
    done = false;
  }
  if (!done) png_error(png, "not enough memory");
}
void flush(png_structp) {}

struct Job {
  std::string bytes;
  std::vector<png_const_bytep> rows;
  std::vector<png_text> texts;
  Index width = 0, height = 0;
};

bool encode(png_structp png, png_infop info, Job& job) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT: libpng's way
  png_set_write_fn(png, &job.bytes, append, flush);
  png_set_IHDR(png, info, static_cast<png_uint_32>(job.width), static_cast<png_uint_32>(job.height), 8, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_sRGB_gAMA_and_cHRM(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
  if (!job.texts.empty()) png_set_text(png, info, job.texts.data(), static_cast<int>(job.texts.size()));
  png_write_info(png, info);
  for (png_const_bytep row : job.rows) png_write_row(png, row);
  png_write_end(png, info);
  return true;
}

png_text text_chunk(std::string& key, std::string& text) {
  png_text chunk{};
  chunk.compression = PNG_ITXT_COMPRESSION_NONE;
  chunk.key = key.data();
  chunk.text = text.data();
  chunk.itxt_length = text.size();
  chunk.lang = nullptr;
  chunk.lang_key = nullptr;
  return chunk;
}

struct Writer {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Writer() { png_destroy_write_struct(&png, &info); }
};

}  // namespace

std::string encode_png(const Raster& picture, const PngText& text) {
  static_assert(sizeof(Rgb) == 3, "rows go to libpng as they lie");
  constexpr Index kLargest = 1'000'000;  // libpng's own limit on either side
  require(picture.width() > 0 && picture.height() > 0 && picture.width() <= kLargest && picture.height() <= kLargest,
          "encode_png: expected 1 to ", kLargest, " pixels on either side; got ", picture.width(), " x ", picture.height());
  Job job{{}, {}, {}, picture.width(), picture.height()};
  for (Index y = 0; y < picture.height(); ++y) {
    static_assert(std::is_standard_layout_v<Rgb>);
    job.rows.push_back(reinterpret_cast<png_const_bytep>(picture.row(y)));
  }
  PngText copy = text;
  for (auto& [key, value] : copy) job.texts.push_back(text_chunk(key, value));
  Failure failure;
  Writer writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &failure, on_error, on_warning);
  if (writer.png == nullptr) throw std::bad_alloc();
  writer.info = png_create_info_struct(writer.png);
  if (writer.info == nullptr) throw std::bad_alloc();
  if (!encode(writer.png, writer.info, job)) throw Error("encode_png: " + failure.text);
  return std::move(job.bytes);
}

}  // namespace multihead::picture
