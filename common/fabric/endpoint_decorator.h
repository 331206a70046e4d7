// Decorators of endpoints and compute ports: every call is passed on, unless a derived class
// overrides it.
//
// Thread-safety: that of what is decorated.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/fabric/compute_port.h"

namespace gossamer {

// `IsIdle` is not passed on: a decorator may hold back verbs that the endpoint below has not seen.
class EndpointDecorator : public Endpoint {
 public:
  void Post(Batch& batch) override { below_.Post(batch); }
  void Post(ControlCall& call) override { below_.Post(call); }
  void Post(QueuePairRequest& request) override { below_.Post(request); }
  size_t Poll() override { return below_.Poll(); }
  void Yield() override { below_.Yield(); }
  bool IsAttached(ServerId server) const override { return below_.IsAttached(server); }
  uint64_t BrokenQueuePairId(ServerId server) const override {
    return below_.BrokenQueuePairId(server);
  }
  uint64_t WorkingQueuePairId(ServerId server) const override {
    return below_.WorkingQueuePairId(server);
  }
  Clock::time_point Now() const override { return below_.Now(); }
  void WakeAt(Clock::time_point due) override { below_.WakeAt(due); }
  const Limits& limits() const override { return below_.limits(); }
  BufferPool& buffers() override { return below_.buffers(); }
  Endpoint& undecorated() override { return below_.undecorated(); }

 protected:
  // `below` outlives this.
  explicit EndpointDecorator(Endpoint& below) : below_(below) {}
  explicit EndpointDecorator(std::unique_ptr<Endpoint> below)
      : owned_(std::move(below)), below_(*owned_) {}

  Endpoint& below() { return below_; }

 private:
  std::unique_ptr<Endpoint> owned_;
  Endpoint& below_;
};

class ComputePortDecorator : public ComputePort {
 public:
  void RequirePathMtu(uint32_t bytes) override { below_->RequirePathMtu(bytes); }
  Status Connect(ServerId server, const std::string& address, uint64_t incarnation) override {
    return below_->Connect(server, address, incarnation);
  }
  Result<std::unique_ptr<Endpoint>> NewEndpoint() override { return below_->NewEndpoint(); }
  Status CheckRoomFor(uint32_t endpoints, uint32_t servers) override {
    return below_->CheckRoomFor(endpoints, servers);
  }
  DeviceStat device() override { return below_->device(); }

 protected:
  explicit ComputePortDecorator(std::unique_ptr<ComputePort> below) : below_(std::move(below)) {}

 private:
  std::unique_ptr<ComputePort> below_;
};

}  // namespace gossamer
