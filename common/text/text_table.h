// Tables for terminals: rows of text in columns as wide as their widest cell.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace gossamer {

// Terminal columns of the UTF-8 `text`; "µs": 2.
size_t ShownWidth(std::string_view text);

using TextRows = std::vector<std::vector<std::string>>;

// Lines, each indented by two spaces and ended by a newline; rows may have different lengths. The
// columns in `left_columns`, numbered from 0, are left-aligned, the others right-aligned.
std::string TextTable(const TextRows& rows, std::initializer_list<size_t> left_columns = {0});

}  // namespace gossamer
