#include "common/text/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "common/text/human.h"

namespace gossamer {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void WriteToStderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (!options_.seconds) options_.seconds = MonotonicSeconds;
  if (!options_.write) options_.write = WriteToStderr;
  is_terminal_ = options_.is_terminal ? options_.is_terminal() : isatty(STDERR_FILENO) == 1;
  start_ = options_.seconds();
  last_time_ = start_;
  next_ = start_ + options_.quiet_seconds;
}

double Progress::elapsed_seconds() const { return options_.seconds() - start_; }

void Progress::Update(uint64_t done, std::string_view remark) {
  if (!options_.enabled || finished_) return;
  const double now = options_.seconds();
  if (now < next_) return;
  std::string line = Line(done, now);
  if (!remark.empty()) line.append(": ").append(remark);
  if (is_terminal_) {
    options_.write(std::string(kEraseLine) + line);
    line_is_shown_ = true;
  } else {
    options_.write(line + "\n");
  }
  next_ = now + (is_terminal_ ? options_.terminal_interval : options_.line_interval);
  // On a terminal, take the rate over at least a second, else it flickers.
  if (!is_terminal_ || now - last_time_ >= 1) {
    last_time_ = now;
    last_done_ = done;
  }
}

void Progress::Finish() {
  if (finished_) return;
  finished_ = true;
  if (line_is_shown_) options_.write(kEraseLine);
}

std::string Progress::Line(uint64_t done, double now) const {
  std::string line = options_.verb + ": " + HumanCount(done);
  if (options_.total > 0) line += " of " + HumanCount(options_.total);
  line += " " + options_.unit;
  if (options_.total > 0) {
    const double part = static_cast<double>(done) / static_cast<double>(options_.total);
    line += fmt::format(" ({} %)", static_cast<int>(part * 100));
  }
  const double span = now - last_time_;
  if (span > 0 && done >= last_done_) {
    line += ", " + HumanRate(static_cast<double>(done - last_done_) / span);
  }
  return line + ", " + HumanDuration(now - start_);
}

}  // namespace gossamer
