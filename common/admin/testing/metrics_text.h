// For tests: a strict check of the Prometheus text format 0.0.4, of names and of what promtool
// would find.
#pragma once

#include <fmt/core.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace gossamer {

// Sentences about what is wrong in `text`, each with its line.
inline std::vector<std::string> ProblemsOfMetrics(const std::string& text) {
  static const std::regex help("# HELP ([a-z][a-z0-9_]*) ([A-Z].*\\.)");
  static const std::regex type("# TYPE ([a-z][a-z0-9_]*) (counter|gauge|histogram)");
  static const std::regex sample(
      "([a-z][a-z0-9_]*)(\\{([a-z_]+=\"([^\"\\\\\n]|\\\\[\\\\\"n])*\",?)+\\})? "
      "([+-]?(Inf|[0-9.]+(e[+-]?[0-9]+)?))");
  static const std::regex histogram_suffix("_(bucket|sum|count)$");
  std::vector<std::string> problems;
  std::map<std::string, std::string> types;
  std::set<std::string> helped;
  std::set<std::string> series;
  std::string line;
  std::istringstream lines(text);
  const auto complain = [&](const std::string& what) { problems.push_back(what + ": " + line); };
  while (std::getline(lines, line)) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      if (!helped.insert(match[1]).second) complain("second HELP");
    } else if (std::regex_match(line, match, type)) {
      if (!types.emplace(match[1], match[2]).second) complain("second TYPE");
      if ((match[2] == "counter") != match[1].str().ends_with("_total")) {
        complain("_total belongs to counters, and to them alone");
      }
    } else if (std::regex_match(line, match, sample)) {
      std::string name = match[1];
      const std::string base = std::regex_replace(name, histogram_suffix, "");
      if (!types.contains(name) && types.contains(base) && types[base] == "histogram") name = base;
      if (!types.contains(name) || !helped.contains(name)) complain("sample without TYPE or HELP");
      if (!series.insert(match[1].str() + match[2].str()).second) complain("second sample");
    } else {
      complain("no line of the format");
    }
  }
  if (!text.empty() && text.back() != '\n') problems.emplace_back("no end of the last line");
  return problems;
}

}  // namespace gossamer
