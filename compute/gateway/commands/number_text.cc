#include "compute/gateway/commands/number_text.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

constexpr size_t kLongestFloat = 5 * 1024;

}  // namespace

std::optional<long double> ParseFloat(std::string_view text) {
  if (text.empty() || text.size() >= kLongestFloat) return std::nullopt;
  if (IsBlank(text.front())) return std::nullopt;
  const std::string copy(text);  // strtold needs its end
  char* end = nullptr;
  errno = 0;
  const long double number = std::strtold(copy.c_str(), &end);
  const bool is_out_of_range = errno == ERANGE && (std::isinf(number) || number == 0);
  if (end != copy.c_str() + copy.size() || std::isnan(number) || is_out_of_range) {
    return std::nullopt;
  }
  return number;
}

std::string FloatText(long double number) {
  std::array<char, 5120> text;  // the largest long double has 4,933 digits
  const int length = std::snprintf(text.data(), text.size(), "%.17Lf", number);
  std::string_view view(text.data(), static_cast<size_t>(length));
  if (view.find('.') != std::string_view::npos) {
    view = view.substr(0, view.find_last_not_of('0') + 1);
    if (view.back() == '.') view.remove_suffix(1);
  }
  return view == "-0" ? "0" : std::string(view);
}

}  // namespace gossamer::gateway
