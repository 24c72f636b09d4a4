// multihead stats: what the heads of a capture do, in numbers.
#include <chrono>
#include <cmath>
#include <memory>

#include "command.h"
#include "machine_options.h"
#include "multihead/observe.h"
#include "options.h"
#include "report.h"
#include "statistics_json.h"

namespace multihead::cli {
namespace {

struct StatsOptions {
  std::optional<std::filesystem::path> path;
  std::optional<Index> batch;
  std::vector<Index> heads;
  MachineOptions machine;
  bool similarity = false, json = false;
};

std::string short_number(double value) { return std::isnan(value) ? "-" : formatted("%.3g", value); }

// "0.12 (0.5)": the number, and what looking everywhere equally would give.
std::string with_uniform(const Measured& measured) {
  return short_number(measured.value) + " (" + short_number(measured.uniform) + ")";
}

struct Column {
  const char* title;
  std::string (*cell)(const HeadStatistics&);
};

std::vector<Column> columns_for(const HeadStatistics& any) {
  std::vector<Column> columns{{"entropy", [](const HeadStatistics& h) { return with_uniform(h.entropy); }},
                              {"of ln V", [](const HeadStatistics& h) { return short_number(h.normalized_entropy.value); }},
                              {"max p", [](const HeadStatistics& h) { return with_uniform(h.confidence); }},
                              {"keys", [](const HeadStatistics& h) { return with_uniform(h.effective_keys); }},
                              {"distance", [](const HeadStatistics& h) { return with_uniform(h.mean_distance); }},
                              {"first key", [](const HeadStatistics& h) { return with_uniform(h.sink_mass[0]); }},
                              {"self", [](const HeadStatistics& h) { return with_uniform(h.offset_mass[0]); }},
                              {"previous", [](const HeadStatistics& h) { return with_uniform(h.offset_mass[1]); }},
                              {"sink", [](const HeadStatistics& h) { return std::string(h.is_sink_head ? "yes" : "no"); }},
                              {"max score", [](const HeadStatistics& h) { return short_number(h.max_score); }}};
  if (any.has_tokens) {
    columns.push_back({"duplicate", [](const HeadStatistics& h) { return with_uniform(h.duplicate_mass); }});
    columns.push_back({"induction", [](const HeadStatistics& h) { return with_uniform(h.induction_mass); }});
  }
  if (any.has_values)
    columns.push_back({"p |v W_O|", [](const HeadStatistics& h) { return with_uniform(h.value_weighted_mass); }});
  if (any.has_output) columns.push_back({"|O W_O|", [](const HeadStatistics& h) { return short_number(h.output_norm); }});
  return columns;
}

std::string text_of(const std::vector<HeadStatistics>& heads) {
  if (heads.empty()) return "no heads\n";
  const std::vector<Column> columns = columns_for(heads.front());
  std::vector<Table::Column> titles{{"head", Table::Align::kRight}};
  for (const Column& column : columns) titles.push_back({column.title});
  Table table(titles);
  for (const HeadStatistics& head : heads) {
    std::vector<std::string> cells{std::to_string(head.head)};
    for (const Column& column : columns) cells.push_back(column.cell(head));
    table.add_row(cells);
  }
  return table.text() +
         "\nMeans over rows; in brackets, what looking at all visible keys equally would give. keys = 1 / sum p^2. sink: the "
         "first key\n"
         "gets more than 0.3 of the attention it could.\n";
}

Json rows_of(const HeadSimilarity& similarity) {
  Json rows = Json::array();
  for (std::size_t a = 0; a < similarity.heads.size(); ++a) {
    Json row = Json::array();
    for (std::size_t b = 0; b < similarity.heads.size(); ++b) row.push_back(json_of_number(similarity.cosine(a, b)));
    rows.push_back(row);
  }
  return rows;
}

std::string text_of(const HeadSimilarity& similarity) {
  std::vector<Table::Column> titles{{"cosine", Table::Align::kRight}};
  for (const Index head : similarity.heads) titles.push_back({std::to_string(head), Table::Align::kRight});
  Table table(titles);
  for (std::size_t a = 0; a < similarity.heads.size(); ++a) {
    std::vector<std::string> cells{std::to_string(similarity.heads[a])};
    for (std::size_t b = 0; b < similarity.heads.size(); ++b) cells.push_back(formatted("%.3f", similarity.cosine(a, b)));
    table.add_row(cells);
  }
  return "\n" + table.text();
}

void stats(const StatsOptions& options) {
  options.machine.apply();
  const auto capture = std::make_shared<const Capture>(load_capture(*options.path));
  const AttentionMap map(capture, options.batch.value_or(0));
  Report report;
  report.set("command", "stats");
  report.add("capture", options.path->string() + (capture->labels.name.empty() ? "" : ": " + capture->labels.name),
             {{"path", options.path->string()}, {"name", capture->labels.name}, {"layer", capture->labels.layer}});
  report.add("maps", std::to_string(map.num_heads()) + " of " + grouped(map.query_len()) + " x " + grouped(map.key_len()),
             {{"num_heads", map.num_heads()},
              {"query_len", map.query_len()},
              {"key_len", map.key_len()},
              {"batch_entry", map.batch_entry()}});
  // A line a second for those who wait.
  auto told = std::chrono::steady_clock::now();
  const auto show = [&told](const char* what) {
    return [&told, what](double done) {
      const auto now = std::chrono::steady_clock::now();
      if (now - told >= std::chrono::seconds(1)) {
        told = now;
        progress(std::string(what) + formatted(" %.0f %%", done * 100));
      }
      return true;
    };
  };
  const std::vector<HeadStatistics> heads =
      statistics(map, {.heads = options.heads, .histogram = options.json}, show("statistics"));
  Json list = Json::array();
  for (const HeadStatistics& head : heads) list.push_back(json_of(head));
  report.set("heads", list);
  report.append("\n" + text_of(heads));
  if (options.similarity) {
    const HeadSimilarity similarity = head_similarity(map, options.heads, show("similarity"));
    report.set("similarity", rows_of(similarity));
    report.append(text_of(similarity));
  }
  report.print(options.json);
}

}  // namespace

void add_stats(CLI::App& app) {
  auto* command = app.add_subcommand("stats", "What the heads of a capture do: entropy, sinks, distances, tokens, values");
  auto options = std::make_shared<StatsOptions>();
  add_path(*command, "CAPTURE", options->path, "a file of `multihead capture`")->required();
  add_integer(*command, "--batch", options->batch, "batch entry; default 0");
  command->add_option("--head", options->heads, "only these heads")->type_name("N")->delimiter(',');
  command->add_flag("--similarity", options->similarity, "how alike the heads' maps are, all against all");
  command->add_flag("--json", options->json, "print one JSON object instead of text");
  add_machine_options(*command, options->machine, "Machine");
  command->footer(
      "Numbers tell where a head reads, not why a model decides.\nExample:\n  multihead stats c.safetensors --similarity");
  command->callback([options] { stats(*options); });
}

}  // namespace multihead::cli
