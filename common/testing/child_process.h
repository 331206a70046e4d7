// For tests: a program started with arguments, its output, and its end by pid. Killed on
// destruction.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

namespace gossamer {

class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  // `arguments[0]` is the program. `environment` adds NAME=VALUE to the test's own.
  explicit ChildProcess(const std::vector<std::string>& arguments,
                        const std::vector<std::string>& environment = {}) {
    int out[2];
    int err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) return;
    std::vector<char*> argv;
    for (const std::string& argument : arguments)
      argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      dup2(err[1], 2);
      for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(err_);
  }

  pid_t pid() const { return pid_; }
  const std::string& standard_output() const { return output_; }
  const std::string& standard_error() const { return error_; }

  void Signal(int signal) const {
    if (pid_ > 0) kill(pid_, signal);
  }

  // Reads until standard output contains `text`. Returns false when the program or `patience` ends
  // before.
  bool WaitForOutput(const std::string& text,
                     std::chrono::seconds patience = std::chrono::seconds(240)) {
    const auto deadline = Clock::now() + patience;
    while (output_.find(text) == std::string::npos) {
      if (Clock::now() >= deadline || !Poll(100)) return false;
    }
    return true;
  }

  // Takes what the program has written, waiting up to `timeout_ms`. Returns false when both streams
  // have ended.
  bool Poll(int timeout_ms) {
    pollfd streams[2] = {{out_open_ ? out_ : -1, POLLIN, 0}, {err_open_ ? err_ : -1, POLLIN, 0}};
    poll(streams, 2, timeout_ms);
    if (streams[0].revents != 0) out_open_ = Append(out_, output_);
    if (streams[1].revents != 0) err_open_ = Append(err_, error_);
    return out_open_ || err_open_;
  }

  // Reads to the end and waits. Returns the exit status; minus the signal's number if a signal
  // ended the program; -1000 if it still ran after `patience` and was killed.
  int Wait(std::chrono::seconds patience = std::chrono::seconds(240)) {
    const auto deadline = Clock::now() + patience;
    bool late = false;
    while (!late && Poll(100)) late = Clock::now() >= deadline;
    // Do not wait longer for the streams: a child of its own may hold them open.
    if (late) Signal(SIGKILL);
    int status = 0;
    if (pid_ > 0) waitpid(pid_, &status, 0);
    pid_ = -1;
    if (late) return -1000;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  static bool Append(int fd, std::string& text) {
    char buffer[4096];
    const ssize_t got = read(fd, buffer, sizeof buffer);
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    return got > 0;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool out_open_ = true;
  bool err_open_ = true;
  std::string output_;
  std::string error_;
};

}  // namespace gossamer
