#include "common/fabric/shm/pages.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <new>
#include <string_view>
#include <thread>

#include "common/asymmetric_fence.h"
#include "common/fabric/shm/refusal.h"
#include "common/process.h"

namespace gossamer::shm {
namespace {

std::string_view ClientOf(const QueuePairPage& page) {
  return {page.client.data(), ::strnlen(page.client.data(), page.client.size())};
}

}  // namespace

void PageSource::GiveBack::operator()(QueuePairPage* page) const {
  page->is_used.store(0, std::memory_order_release);
  source->free_.push_back(page);
}

PageSource::PageSource(const KeptMemory* kept) : kept_(kept) {
  if (kept_ == nullptr) return;
  for (size_t i = kept_->queue_pair_pages.size() / kQueuePairPageBytes; i-- > 0;) {
    free_.push_back(At(i));
  }
}

Status PageSource::SettleOld(const SharedMemory& memory, std::chrono::milliseconds patience) {
  std::vector<QueuePairPage*> unsettled;
  for (QueuePairPage* page : free_) {
    if (page->is_used.load(std::memory_order_acquire) == 0) continue;
    page->closed.store(1, std::memory_order_release);
    unsettled.push_back(page);
  }
  if (unsettled.empty()) return Ok();
  HeavyFenceOfAll();  // for each page, one of the two sees what the other stored
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    std::erase_if(unsettled, [&memory](QueuePairPage* page) {
      // First: a client that ends later has finished what it was doing.
      const bool is_dead = LookUpProcess(ClientOf(*page)) == ProcessState::kGone;
      const bool is_busy = page->busy.load(std::memory_order_acquire) != 0;
      if (is_busy && !is_dead) return false;
      if (is_busy) FinishWrite(page->journal, memory);
      page->is_used.store(0, std::memory_order_release);
      return true;
    });
    if (unsettled.empty()) return Ok();
    if (std::chrono::steady_clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return MakeError(
      Code::kContended,
      fmt::format("process {}, a client of the memory server before this one, is stopped in the "
                  "middle of its verbs, which may still land: let it go on or end it, and start "
                  "this memory server again",
                  ProcessIdOf(ClientOf(*unsettled.front()))));
}

Result<PageSource::Page> PageSource::Make(const std::string& client) {
  Page made;
  if (kept_ == nullptr) {
    Result<UniqueFd> file = CreateMemfd("gossamer-queue-pair", kQueuePairPageBytes, false);
    if (!file && LacksDescriptors()) return NoDescriptorHere();
    if (!file) return MakeError(Code::kNodeUnreachable, file.error().message);
    BOOST_OUTCOME_TRY(mapping, MapFile(file.value()));
    made.own = std::move(mapping);
    made.own_file = std::move(file).value();
    ::new (made.own.data()) QueuePairPage;
    return made;
  }
  if (free_.empty()) {
    return MakeError(Code::kNodeUnreachable,
                     fmt::format("the memory server has {} queue pairs, for which its region file "
                                 "has room: close some sessions",
                                 kept_->queue_pair_pages.size() / kQueuePairPageBytes));
  }
  // The file may have no page there yet. Where it cannot have one, a write would be a bus error.
  // (EINVAL: a kernel before 5.14 cannot tell.)
  if (::madvise(free_.back(), kQueuePairPageBytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
    return MakeError(Code::kNodeUnreachable,
                     ErrnoText("the memory server cannot enlarge its region file"));
  }
  auto* const page = ::new (free_.back()) QueuePairPage;
  free_.pop_back();
  client.copy(page->client.data(), page->client.size());
  page->is_used.store(1, std::memory_order_release);
  made.kept = {page, {this}};
  return made;
}

uint64_t PageSource::PlaceOf(const Page& page) const {
  if (!page.kept) return 0;
  const auto* const at = reinterpret_cast<const std::byte*>(page.kept.get());
  return kept_->queue_pair_pages_at + static_cast<uint64_t>(at - kept_->queue_pair_pages.data());
}

}  // namespace gossamer::shm
