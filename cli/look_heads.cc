#include "look_heads.h"

#include <algorithm>
#include <cmath>

#include "progress_line.h"
#include "statistics_json.h"

namespace multihead::cli {
namespace {

std::string rounded(const char* format, double value) { return std::isfinite(value) ? formatted(format, value) : "-"; }

// What stands in one column.
struct Column {
  const char* title;
  const char* format;
  Measured (*number)(const ExaminedHead&);
};

std::vector<Column> columns_for(const ExaminedHead& any) {
  std::vector<Column> columns{
      {"entropy", "%.2f", [](const ExaminedHead& h) { return h.statistics.normalized_entropy; }},
      {"distance", "%.1f", [](const ExaminedHead& h) { return h.statistics.mean_distance; }},
      {"prev.", "%.2f", [](const ExaminedHead& h) { return h.statistics.offset_mass[1]; }},
      {"near", "%.2f", [](const ExaminedHead& h) { return h.look.local_mass; }},
      {"first", "%.2f", [](const ExaminedHead& h) { return h.statistics.sink_mass[0]; }},
  };
  if (any.statistics.has_tokens)
    columns.push_back({"induction", "%.2f", [](const ExaminedHead& h) { return h.statistics.induction_mass; }});
  return columns;
}

// Visibility and text are the same for all layers of most models, and then so are the numbers of even attention.
std::vector<std::string> even_row(const ExaminedHead& head, const std::vector<Column>& columns) {
  std::vector<std::string> row{"", "even"};
  for (const Column& column : columns) row.push_back(rounded(column.format, column.number(head).uniform));
  row.emplace_back();
  return row;
}

std::vector<std::string> row_of(const ExaminedHead& head, const std::vector<Column>& columns, bool is_shown) {
  std::vector<std::string> row{std::to_string(head.layer), std::to_string(head.statistics.head)};
  for (const Column& column : columns) row.push_back(rounded(column.format, column.number(head).value));
  row.push_back(name_of(head.look) + (is_shown ? " *" : ""));
  return row;
}

// "* layer 2, head 5, drawn below: induction, 0.61 of its attention (even: 0.04)".
std::string sentence_of(const ExaminedHead& head) {
  const HeadLook& look = head.look;
  std::string text =
      "* layer " + std::to_string(head.layer) + ", head " + std::to_string(head.statistics.head) + ", drawn below: ";
  text += look.kind == HeadKind::kNone ? "no row has a choice" : name_of(look);
  if (look.kind == HeadKind::kBroad || look.kind == HeadKind::kMixed)
    text += ", entropy " + rounded("%.2f", look.measured.value) + " of its largest";
  else if (look.kind != HeadKind::kNone)
    text += ", " + rounded("%.2f", look.measured.value) + " of its attention (even: " + rounded("%.2f", look.measured.uniform) +
            ")";
  return text + "\n";
}

constexpr const char* kLegend =
    "Means over the rows; \"even\": what even attention over the visible keys has.\n"
    "entropy: of its largest, ln(keys seen). distance: to the keys, in tokens. The\n"
    "others are shares of a row's attention: on the previous token, on tokens at most\n"
    "8 away, on the first, and on those behind earlier copies of the row's own token.\n";

}  // namespace

std::vector<ExaminedHead> examine(const std::vector<std::shared_ptr<const Capture>>& captures, const ExamineRequest& request) {
  std::vector<ExaminedHead> heads;
  ProgressLine line("statistics");
  const Progress whole = line.callback();
  double before = 0;
  for (const Index layer : request.layers) {
    Progress part;
    if (whole) part = [&](double done) { return whole((before + done) / static_cast<double>(request.layers.size())); };
    const AttentionMap map(captures[static_cast<std::size_t>(layer)]);
    const std::vector<std::string> key_tokens(map.key_tokens().begin(), map.key_tokens().end());
    for (HeadStatistics& head : statistics(map, {.histogram = request.histogram}, part)) {
      const HeadLook look = look_of(head, key_tokens);
      heads.push_back({layer, std::move(head), look});
    }
    ++before;
  }
  return heads;
}

const ExaminedHead& most_interesting(const std::vector<ExaminedHead>& heads) {
  std::vector<HeadLook> looks;
  for (const ExaminedHead& head : heads) looks.push_back(head.look);
  return heads.at(static_cast<std::size_t>(multihead::most_interesting(looks)));
}

std::string table_of(const std::vector<ExaminedHead>& heads, const ExaminedHead& shown) {
  const std::vector<Column> columns = columns_for(heads.front());
  std::vector<Table::Column> titles{{"layer", Table::Align::kRight}, {"head", Table::Align::kRight}};
  for (const Column& column : columns) titles.push_back({column.title, Table::Align::kRight});
  titles.push_back({"looks like"});
  Table table(titles);
  std::vector<std::string> even;
  for (const ExaminedHead& head : heads) {
    if (std::vector<std::string> here = even_row(head, columns); here != even) {
      even = here;
      table.add_row(std::move(here));
    }
    table.add_row(row_of(head, columns, &head == &shown));
  }
  return table.text() + kLegend + sentence_of(shown);
}

Json json_of(const ExaminedHead& head) {
  Json json{{"layer", head.layer},
            {"looks_like", name_of(head.look)},
            {"excess", json_of_number(head.look.excess)},
            {"interest", json_of_number(head.look.interest)},
            {"local_mass", json_of(head.look.local_mass)},
            {"separator_mass", json_of(head.look.separator_mass)}};
  json.update(json_of(head.statistics));
  return json;
}

}  // namespace multihead::cli
