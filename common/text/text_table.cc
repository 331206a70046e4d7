#include "common/text/text_table.h"

#include <algorithm>

namespace gossamer {
namespace {

constexpr size_t kIndent = 2;
constexpr size_t kGap = 3;

}  // namespace

size_t ShownWidth(std::string_view text) {
  const auto is_first_byte = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  };
  return static_cast<size_t>(std::ranges::count_if(text, is_first_byte));
}

std::string TextTable(const TextRows& rows, std::initializer_list<size_t> left_columns) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], ShownWidth(row[i]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool is_left = std::ranges::find(left_columns, i) != left_columns.end();
      const std::string padding(widths[i] - ShownWidth(row[i]), ' ');
      line.append(i == 0 ? kIndent : kGap, ' ');
      line += is_left ? row[i] + padding : padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace gossamer
