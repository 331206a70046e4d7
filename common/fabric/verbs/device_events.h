// The asynchronous events of an RDMA device: each is logged and counted. Whether the device can be
// used is what the port says, and no event that the device is lost.
//
// An event of a context can be read once, and all users of a device in a process share its context
// (librdmacm). So there is one DeviceEvents for each context. Its thread sleeps until an event
// comes.
//
// Thread-safety: any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/status.h"
#include "common/unique_fd.h"

namespace gossamer::verbs {

class DeviceEvents {
 public:
  // Requires (unchecked): the context stays open as long as the result.
  // Errors: NoResources.
  static Result<std::shared_ptr<DeviceEvents>> Of(ibv_context* verbs);
  ~DeviceEvents();
  DeviceEvents(const DeviceEvents&) = delete;
  DeviceEvents& operator=(const DeviceEvents&) = delete;

  // Why port `port` of the device cannot be used now, a sentence; or empty.
  std::string Trouble(uint8_t port) const;
  std::map<std::string, uint64_t> Counts() const;

  // What the thread does with each event. `port`: of events of a port.
  void Note(ibv_event_type type, uint8_t port);
  // The connection manager reports that the device is removed, by an event of its own.
  void NoteRemoval();

 private:
  explicit DeviceEvents(ibv_context* verbs)
      : verbs_(verbs), device_(ibv_get_device_name(verbs->device)) {}
  Status Start();
  void Run();
  void Lose(const std::string& event, const std::string& why);
  std::string RemovedText() const;

  ibv_context* const verbs_;
  const std::string device_;
  UniqueFd stop_;
  mutable std::mutex mutex_;  // for what follows
  std::map<std::string, uint64_t> counts_;
  std::string lost_;  // why the device is of no use any more; or empty
  std::thread thread_;
};

}  // namespace gossamer::verbs
