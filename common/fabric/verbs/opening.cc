#include "common/fabric/verbs/opening.h"

#include <utility>

#include "common/start_thread.h"

namespace gossamer::verbs {

Result<std::unique_ptr<OpeningAttempt>> OpeningAttempt::Start(Plan plan,
                                                              const ComputePortOptions& options) {
  std::unique_ptr<OpeningAttempt> opening(new OpeningAttempt(std::move(plan), options));
  BOOST_OUTCOME_TRY(thread,
                    StartThread("open a queue pair", [self = opening.get()] { self->Run(); }));
  opening->thread_ = std::move(thread);
  return opening;
}

OpeningAttempt::~OpeningAttempt() {
  is_cancelled_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void OpeningAttempt::Run() {
  plan_.replaced.reset();
  status_ = Connect();
  if (!status_) connection_ = {};
  is_done_.store(true, std::memory_order_release);
}

Status OpeningAttempt::Connect() {
  BOOST_OUTCOME_TRY(attempt, ConnectAttempt::Begin(plan_.peer.address, plan_.peer.device.get(),
                                                   options_, plan_.end));
  BOOST_OUTCOME_TRYV(attempt.Await(&is_cancelled_));
  BOOST_OUTCOME_TRY(connection, attempt.MakeQueuePair(plan_.peer, plan_.domain, plan_.queue));
  connection_ = std::move(connection);
  BOOST_OUTCOME_TRYV(attempt.Send(connection_, plan_.request));
  BOOST_OUTCOME_TRYV(attempt.Await(&is_cancelled_));
  return attempt.Established(connection_);
}

}  // namespace gossamer::verbs
