// The page as it leaves the server: complete to read without JavaScript.
#pragma once

#include <string>

#include "lab/server/http.h"

namespace multihead::lab {

/// Languages with a file text/LANGUAGE.json; the first is the fallback.
inline constexpr const char* kLanguages[] = {"en", "zh", "ru"};

/// The language of ?lang=, else the best of Accept-Language, else the first.
std::string language_of(const Request& request);

/// index.html with {{names}} replaced: texts of a language, the equation, and the first preset's numbers from the engine.
std::string render_page(const std::string& language);

}  // namespace multihead::lab
