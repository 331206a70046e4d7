#include "compute/verify/stress/clients.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "common/text/human.h"
#include "compute/verify/stress/cluster.h"
#include "compute/verify/stress/now.h"

namespace gossamer::stress {

uint64_t OperationsDone(const RunBoard& board) {
  uint64_t done = 0;
  for (const ClientReport& client : board.clients) done += client.operations;
  return done;
}

Clients::Clients(const StressOptions& options, const std::string& directory,
                 const std::string& bootstrap, const std::vector<std::string>& command)
    : options_(options), random_(options.seed, ~uint64_t{0}), command_(command) {
  command_.push_back("--client_bootstrap=" + bootstrap);
  command_.push_back("--client_directory=" + directory);
  for (uint32_t i = 0; i < options.clients; ++i) processes_.push_back(NewClient());
}

Clients::ClientProcess Clients::NewClient() {
  const uint32_t number = next_number_++;
  std::vector<std::string> arguments = command_;
  arguments.push_back(fmt::format("--client={}", number));
  return {number, std::make_unique<ChildProcess>(BoundToParent(std::move(arguments)))};
}

size_t Clients::Poll() {
  size_t running = 0;
  for (const ClientProcess& client : processes_) running += client->Poll(0) ? 1 : 0;
  return running;
}

void Clients::KillOne(const RunBoard& board, bool only_at_work) {
  ClientProcess& client = processes_[random_.Below(processes_.size())];
  if (!client->Poll(0)) return;  // it ended by itself, which is reported later
  // On a busy machine most clients would die before doing any work, which would prove little.
  const bool may_be_early = !only_at_work && 2 * killed_early_ <= kills_;
  if (!may_be_early && board.clients[client.number].operations == 0) return;
  client->Signal(SIGKILL);
  client->Wait();
  // Print what it has written so far.
  std::cout << client->standard_output() << client->standard_error();
  const bool at_work = board.clients[client.number].operations != 0;
  ++(at_work ? kills_ : killed_early_);
  client = NewClient();
}

void Clients::PauseOne() {
  const ClientProcess& client = processes_[random_.Below(processes_.size())];
  if (client->Poll(0)) {
    client->Signal(SIGSTOP);
    ++pauses_;
    std::this_thread::sleep_for(
        std::chrono::microseconds(random_.Below(uint64_t{options_.pause_ms} * 1000)));
    client->Signal(SIGCONT);
  }
  std::this_thread::sleep_for(
      std::chrono::microseconds(random_.Below(uint64_t{options_.pause_ms} * 2000)));
}

bool Clients::SurvivorsWork(const RunBoard& board) const {
  constexpr uint64_t kEnough = 200;
  return std::ranges::all_of(processes_, [&](const ClientProcess& client) {
    return board.clients[client.number].operations >= kEnough;
  });
}

bool Clients::HaveWorkedOn(int64_t since, const RunBoard& board) const {
  return std::ranges::all_of(processes_, [&](const ClientProcess& client) {
    const auto& threads = board.clients[client.number].oldest_began_ns;
    return std::all_of(threads, threads + options_.threads,
                       [since](const auto& began) { return began >= since; });
  });
}

bool Clients::HaveReached(uint32_t era, const RunBoard& board) const {
  return std::ranges::all_of(processes_, [&](const ClientProcess& client) {
    return board.clients[client.number].era >= era;
  });
}

void Clients::Judge(Findings& findings) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    const int status = processes_[i]->Wait(kPatience);
    std::cout << processes_[i]->standard_output() << processes_[i]->standard_error();
    if (status != 0) {
      findings.Wrong(fmt::format("client {} ended with status {}", i, status));
    }
  }
  if (pauses_ != 0) {
    std::cout << "pauses      " << HumanQuantity(pauses_, "time")
              << " a client was stopped, for at most " << options_.pause_ms << " ms\n";
  }
  if (options_.kills == 0) return;
  std::cout << "kills       " << kills_ << " of " << options_.kills << " clients at work, and "
            << killed_early_ << " that had not done anything yet\n";
  if (kills_ < options_.kills)
    findings.Wrong("there was no time for all kills, or too few clients came to work");
}

}  // namespace gossamer::stress
