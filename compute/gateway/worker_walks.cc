// Walks of a worker: commands that read many keys, each as a task of its own.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compute/gateway/reply_writer.h"
#include "compute/gateway/walk.h"
#include "compute/gateway/worker.h"

namespace gossamer::gateway {
namespace {

using Clock = std::chrono::steady_clock;

// Of each word of a walk, for the slow log.
constexpr size_t kMostWord = 256;

}  // namespace

void Worker::StartWalk(Client& client, const Command& command,
                       const std::vector<std::string_view>& arguments) {
  Result<Walk> walk =
      Walk::Parse(command, arguments, shared_.positions, [&client] { return client.is_lost(); });
  if (!walk) {
    ReplyWriter(client.out, client.is_resp3).Error(walk.error().message);
    metrics_->RecordCommand(NumberOf(command), {}, true);
    return;
  }
  client.is_busy = true;
  ++walks_;
  if (command.id == CommandId::kScanRange) ++range_walks_;
  std::vector<std::string> words;
  for (const std::string_view word : arguments) words.emplace_back(word.substr(0, kMostWord));
  session_->Spawn(
      RunWalk(client, std::make_unique<Walk>(std::move(walk.value())), &command, std::move(words)));
}

Task<void> Worker::RunWalk(Client& client, std::unique_ptr<Walk> walk, const Command* command,
                           std::vector<std::string> words) {
  const Clock::time_point begin = Clock::now();
  const size_t before = client.out.size();
  LongList list(shared_.memory);
  co_await walk->Run(*session_, shared_.positions, turns_, client.out, list, client.is_resp3);
  const std::chrono::nanoseconds duration = Clock::now() - begin;
  const bool is_error = client.out.size() > before && client.out[before] == '-';
  client.Append(list.TakePieces());
  metrics_->RecordCommand(NumberOf(*command), duration, is_error);
  if (const auto keys = walk->key_count())
    shared_.key_count.store(static_cast<int64_t>(*keys), std::memory_order_relaxed);
  if (shared_.slow_log.IsSlow(duration)) {
    shared_.slow_log.Add(duration, {words.begin(), words.end()}, client.entry().address(),
                         client.entry().name());
  }
  // Released later: the walk may end at once, while the client's request is still being taken.
  --walks_;
  if (command->id == CommandId::kScanRange) --range_walks_;
  done_.push_back(&client);
}

}  // namespace gossamer::gateway
