// What a command says on standard output: facts or tables for people, or the same as one JSON object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "multihead/tensor.h"

namespace multihead::cli {

using Json = nlohmann::ordered_json;

/// Columns as wide as their widest cell; numbers are right-aligned by the caller's choice per column.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Ends with a newline.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Facts in order, each with a name.
class Report {
 public:
  void add(const std::string& name, const std::string& text, Json value) {
    say(name, text);
    set(name, std::move(value));
  }
  /// For people alone.
  void say(const std::string& name, const std::string& text) { lines_.emplace_back(name, text); }
  /// Free text (tables, matrices) after the facts, for people alone.
  void append(const std::string& text) { tail_ += text; }
  /// For machines alone.
  void set(const std::string& name, Json value) { json_[name] = std::move(value); }
  void print(bool json) const;

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
  std::string tail_;
  Json json_ = Json::object();
};

/// Prints to standard output; throws IoError when it cannot (a full disk, a closed pipe).
void print(const std::string& text);
void print(const Json& json);
/// A line on standard error, only when a person watches it.
void progress(const std::string& text);

Json json_of(const Dims& dims);
std::string grouped(Index number);         ///< 4,194,304
std::string with_prefix(double number);    ///< 2.15 G
std::string bytes_text(double bytes);      ///< 64 MiB
std::string seconds_text(double seconds);  ///< 1.25 ms
std::string scientific(double number);     ///< 2.1e-07
/// One number as printf writes it.
std::string formatted(const char* format, double number);

}  // namespace multihead::cli
