#include "common/fabric/verbs/device_events.h"

#include <fmt/core.h>
#include <glog/logging.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "common/fabric/verbs/resources.h"
#include "common/start_thread.h"

namespace gossamer::verbs {
namespace {

// A change of what the port's addresses are, or of who manages the subnet. Connections go on, or
// break by themselves and are made anew.
bool IsChange(ibv_event_type type) {
  return type == IBV_EVENT_GID_CHANGE || type == IBV_EVENT_LID_CHANGE ||
         type == IBV_EVENT_PKEY_CHANGE || type == IBV_EVENT_SM_CHANGE ||
         type == IBV_EVENT_CLIENT_REREGISTER;
}

// Part of the life of a queue pair.
bool IsOrdinary(ibv_event_type type) {
  return type == IBV_EVENT_COMM_EST || type == IBV_EVENT_SQ_DRAINED || type == IBV_EVENT_PATH_MIG ||
         type == IBV_EVENT_QP_LAST_WQE_REACHED;
}

bool IsOfPort(ibv_event_type type) {
  return type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_PORT_ERR || IsChange(type);
}

}  // namespace

Result<std::shared_ptr<DeviceEvents>> DeviceEvents::Of(ibv_context* verbs) {
  static std::mutex mutex;
  static std::map<ibv_context*, std::weak_ptr<DeviceEvents>> all;
  const std::lock_guard lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  if (std::shared_ptr<DeviceEvents> known = all[verbs].lock()) return known;
  std::shared_ptr<DeviceEvents> events(new DeviceEvents(verbs));
  BOOST_OUTCOME_TRYV(events->Start());
  all[verbs] = events;
  return events;
}

Status DeviceEvents::Start() {
  BOOST_OUTCOME_TRYV(SetNonBlocking(verbs_->async_fd));
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_) return ErrnoError(Code::kNoResources, "making an event descriptor");
  BOOST_OUTCOME_TRY(thread, StartThread("watch the RDMA device", [this] { Run(); }));
  thread_ = std::move(thread);
  return Ok();
}

DeviceEvents::~DeviceEvents() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void DeviceEvents::Run() {
  std::array<pollfd, 2> waiting{{{stop_.get(), POLLIN, 0}, {verbs_->async_fd, POLLIN, 0}}};
  for (;;) {
    poll(waiting.data(), waiting.size(), -1);
    if (waiting[0].revents != 0) return;
    ibv_async_event event{};
    while (ibv_get_async_event(verbs_, &event) == 0) {
      const uint8_t port =
          IsOfPort(event.event_type) ? static_cast<uint8_t>(event.element.port_num) : uint8_t{0};
      // First: a queue pair cannot be destroyed before its events are acknowledged.
      ibv_ack_async_event(&event);
      Note(event.event_type, port);
    }
    // A device that was removed is ready for ever, and says nothing.
    if ((waiting[1].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
      waiting[1].fd = -1;
      NoteRemoval();
    }
  }
}

void DeviceEvents::Note(ibv_event_type type, uint8_t port) {
  const std::string name = ibv_event_type_str(type);
  if (type == IBV_EVENT_DEVICE_FATAL) {
    Lose(name, device_ + " has failed for good: start this program anew");
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_[name];
  }
  const std::string at_port = fmt::format("port {} of {}", port, device_);
  if (type == IBV_EVENT_PORT_ERR) {
    LOG(WARNING) << at_port << " is down";
  } else if (type == IBV_EVENT_PORT_ACTIVE) {
    LOG(INFO) << at_port << " is up";
  } else if (IsChange(type)) {
    LOG(INFO) << at_port << ": " << name;
  } else if (!IsOrdinary(type)) {
    LOG(WARNING) << device_ << ": " << name;
  }
}

void DeviceEvents::NoteRemoval() { Lose("device removal", RemovedText()); }

std::string DeviceEvents::RemovedText() const {
  return device_ + " has been removed: start this program anew when it is back";
}

void DeviceEvents::Lose(const std::string& event, const std::string& why) {
  const std::lock_guard lock(mutex_);
  ++counts_[event];
  if (!lost_.empty()) return;
  lost_ = why;
  LOG(ERROR) << lost_;
}

std::string DeviceEvents::Trouble(uint8_t port) const {
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.empty()) return lost_;
  }
  // Not every driver ends the contexts of a device that goes away: rxe lets them answer for ever.
  const char* const path = verbs_->device->ibdev_path;
  if (path[0] != '\0' && access(path, F_OK) != 0) return RemovedText();
  ibv_port_attr attributes{};
  const bool is_up =
      ibv_query_port(verbs_, port, &attributes) == 0 && attributes.state == IBV_PORT_ACTIVE;
  return is_up ? "" : fmt::format("port {} of {} is down", port, device_);
}

std::map<std::string, uint64_t> DeviceEvents::Counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace gossamer::verbs
