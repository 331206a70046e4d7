// A program's RDMA device: what it is, and how it is.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace gossamer {

struct DeviceStat {
  // Facts about the device and the port that is used, as name and value, in the order in which
  // people read them: "link" and "100 Gb/s". The names are fit for JSON and for labels of metrics.
  // Empty: there is no device.
  std::vector<std::pair<std::string, std::string>> facts = {};
  std::string trouble = {};  // why the device cannot be used now, a sentence; or empty
  // Asynchronous events of the device that this process has seen, by name ("port error").
  std::map<std::string, uint64_t> events = {};
};

// The facts in one line: device="mlx5_0" firmware="22.31" …
inline std::string FactsText(const DeviceStat& device) {
  std::string text;
  for (const auto& [name, value] : device.facts) {
    if (!text.empty()) text += ' ';
    text.append(name).append("=\"").append(value).append("\"");
  }
  return text;
}

}  // namespace gossamer
