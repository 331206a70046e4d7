#include "compute/verify/sim/names.h"

#include <algorithm>

namespace gossamer::simulator {

Result<uint32_t> ParseNames(std::string_view text, std::span<const std::string_view> names,
                            std::string_view flag, std::string_view what) {
  if (text == "none") return uint32_t{0};
  if (text == "all") return (1u << names.size()) - 1;
  uint32_t set = 0;
  while (true) {
    const std::string_view word = text.substr(0, text.find(','));
    const auto name = std::find(names.begin(), names.end(), word);
    if (name == names.end()) {
      std::string known;
      for (const std::string_view one : names) known += ", " + std::string(one);
      return MakeError(Code::kInvalidArgument,
                       std::string(flag) + ": '" + std::string(word) + "' is no " +
                           std::string(what) + "; give none, all, or some of" + known.substr(1));
    }
    set |= 1u << (name - names.begin());
    if (word.size() == text.size()) return set;
    text.remove_prefix(word.size() + 1);
  }
}

std::string NamesOf(uint32_t set, std::span<const std::string_view> names) {
  if (set == 0) return "none";
  if (set == (1u << names.size()) - 1) return "all";
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if ((set >> i & 1) == 0) continue;
    if (!text.empty()) text += ',';
    text += names[i];
  }
  return text;
}

}  // namespace gossamer::simulator
