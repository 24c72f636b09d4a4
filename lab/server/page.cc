#include "lab/server/page.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "lab/server/assets.h"
#include "lab/server/lab_api.h"

namespace multihead::lab {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string cell(const Json& value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3f", value.get<double>());
  return text;
}

std::string table(const std::string& caption, const Json& rows) {
  std::string html = "<table class=\"plain-matrix\"><caption>" + escaped(caption) + "</caption><tbody>";
  for (const Json& row : rows) {
    html += "<tr>";
    for (const Json& value : row) html += "<td>" + cell(value) + "</td>";
    html += "</tr>";
  }
  return html + "</tbody></table>\n";
}

// The first preset, as the lab shows it: inputs, every head's stages, output.
std::string numbers(const Json& texts) {
  const auto text = [&](const char* key) { return texts.at(key).get<std::string>(); };
  const Problem problem = lab_presets().front();
  const Json stages = stages_json(problem);
  std::string html = "<div class=\"plain-row\">" + table("X", json_of(problem.input)) + "</div>\n";
  int index = 0;
  for (const Json& head : stages["heads"]) {
    const std::string number = std::to_string(++index);
    html += "<h3>" + escaped(text("head")) + " " + number + "</h3>\n<div class=\"plain-row\">";
    html += table("Q" + number, head["query"]) + table("K" + number, head["key"]) + table("V" + number, head["value"]);
    html += table(text("stage.scores"), head["scores"]) + table(text("stage.probabilities"), head["probabilities"]);
    html += table("O" + number, head["output"]) + "</div>\n";
  }
  return html + "<div class=\"plain-row\">" + table(text("stage.concat"), stages["concat"]) +
         table(text("stage.output"), stages["output"]) + "</div>\n";
}

}  // namespace

std::string language_of(const Request& request) {
  const auto known = [](const std::string& name) {
    return std::find(std::begin(kLanguages), std::end(kLanguages), name) != std::end(kLanguages);
  };
  if (const std::string asked = request.parameter("lang"); known(asked)) return asked;
  // "ru-RU,ru;q=0.9,en;q=0.8": the known language with the largest q, the first of equals.
  std::string best = kLanguages[0];
  double best_weight = 0;
  const std::string& header = request.accept_language;
  for (std::size_t begin = 0; begin < header.size();) {
    const std::size_t end = std::min(header.find(',', begin), header.size());
    std::string entry = header.substr(begin, end - begin);
    entry.erase(0, entry.find_first_not_of(' ') == std::string::npos ? entry.size() : entry.find_first_not_of(' '));
    const std::size_t q = entry.find(";q=");
    const double weight = q == std::string::npos ? 1 : std::strtod(entry.c_str() + q + 3, nullptr);
    const std::string name = entry.substr(0, entry.find_first_of("-;"));
    if (known(name) && weight > best_weight) {
      best = name;
      best_weight = weight;
    }
    begin = end + 1;
  }
  return best;
}

std::string render_page(const std::string& language) {
  const std::string source(asset("index.html"));
  const Json texts = Json::parse(asset("text/" + language + ".json"));
  std::string html;
  std::size_t begin = 0;
  for (std::size_t open = source.find("{{"); open != std::string::npos; open = source.find("{{", begin)) {
    const std::size_t close = source.find("}}", open);
    const std::string name = source.substr(open + 2, close - open - 2);
    html += source.substr(begin, open - begin);
    if (name == "language") {
      html += language;
    } else if (name == "numbers") {
      html += numbers(texts);
    } else {
      html += escaped(texts.at(name).get<std::string>());
    }
    begin = close + 2;
  }
  return html + source.substr(begin);
}

}  // namespace multihead::lab
