// Goes on with a text, byte by byte: ./generate FOLDER TEXT
#include <cstdio>
#include <string>

#include "multihead/decoder.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: generate FOLDER TEXT\n"), 2;
  const multihead::Decoder decoder = multihead::Decoder::open(argv[1]);  // a model whose tokens are bytes
  std::vector<multihead::Index> prompt;
  for (const char c : std::string(argv[2])) prompt.push_back(static_cast<unsigned char>(c));
  std::printf("%s", argv[2]);
  multihead::generate(decoder, prompt,
                      {.tokens = 40, .on_token = [](multihead::Index id) { return std::putchar(int(id)) != EOF; }});
  std::printf("\n");
}
