#include "compute/gateway/gateway.h"

#include <glog/logging.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <utility>

#include "common/admin/listen_address.h"
#include "common/start_thread.h"
#include "compute/gateway/connection/descriptor_limit.h"
#include "compute/gateway/option_checks.h"

namespace gossamer::gateway {
namespace {

constexpr std::string_view kRedisFlag = "--redis";
constexpr std::string_view kTlsFlag = "--tls";

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : Commands()) names.emplace_back(command.name);
  return names;
}

// The thread then runs on one processor: number `number` of the processors that this process may
// use. A failure changes nothing.
void PinThisThread(size_t number) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  size_t left = number % static_cast<size_t>(CPU_COUNT(&allowed));
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed) || left-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    return;
  }
}

}  // namespace

Gateway::Gateway(GatewayOptions options)
    : options_(std::move(options)),
      metrics_(std::make_shared<WorkerMetrics>(CommandNames())),
      shared_(options_) {}

Result<std::unique_ptr<Gateway>> Gateway::Start(GatewayOptions options, Store& store) {
  BOOST_OUTCOME_TRYV(CheckAddresses(options));
  std::unique_ptr<Gateway> gateway(new Gateway(std::move(options)));
  RaiseDescriptorLimit(gateway->options_.max_clients);
  BOOST_OUTCOME_TRYV(gateway->OpenListeners());
  BOOST_OUTCOME_TRYV(gateway->OpenWorkers(store));
  BOOST_OUTCOME_TRYV(gateway->FitMaxClients());
  BOOST_OUTCOME_TRYV(gateway->StartWorkers());
  return gateway;
}

Status Gateway::CheckPorts(const GatewayOptions& options) {
  for (const std::string& where : options.listen) {
    BOOST_OUTCOME_TRYV(CheckFree(where, kRedisFlag));
  }
  for (const std::string& where : options.listen_tls) {
    BOOST_OUTCOME_TRYV(CheckFree(where, kTlsFlag));
  }
  return Ok();
}

Gateway::~Gateway() {
  for (const auto& worker : workers_) worker->Stop();
  for (std::thread& thread : threads_) thread.join();
  for (const std::string& path : paths_) unlink(path.c_str());
}

Status Gateway::Use(Store& store) {
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t number = 0; number < workers_.size(); ++number) {
    BOOST_OUTCOME_TRY(session, store.NewSession());
    sessions.push_back(std::move(session));
  }
  std::vector<std::future<void>> are_used;
  for (size_t number = 0; number < workers_.size(); ++number) {
    are_used.push_back(workers_[number]->Use(store, std::move(sessions[number])));
  }
  for (const std::future<void>& is_used : are_used) is_used.wait();
  return Ok();
}

Status Gateway::OpenListeners() {
  listeners_.resize(options_.threads);
  // In the order of the options, which OpenWorkers relies on.
  for (const std::string& where : options_.listen) {
    BOOST_OUTCOME_TRYV(OpenListener(where, false));
  }
  for (const std::string& where : options_.listen_tls) {
    BOOST_OUTCOME_TRYV(OpenListener(where, true));
  }
  return Ok();
}

Status Gateway::OpenListener(const std::string& where, bool is_tls) {
  const std::string_view flag = is_tls ? kTlsFlag : kRedisFlag;
  const bool is_path = IsPath(where);
  std::string address = where;
  // With SO_REUSEPORT the kernel lets a second process of this user listen there, too.
  if (!is_path && options_.threads > 1 && ParseListenAddress(where).value().port != 0) {
    BOOST_OUTCOME_TRYV(CheckFree(where, flag));
  }
  for (std::vector<OwnedListener>& own : listeners_) {
    if (is_path && &own != &listeners_.front()) break;
    BOOST_OUTCOME_TRY(
        socket, Listen(address, options_.threads > 1 && !is_path, flag, options_.socket_mode));
    address = AddressOf(address, socket);  // the same port for the others
    own.push_back({std::move(socket), is_tls});
  }
  if (is_path) paths_.push_back(where.substr(kUnix.size()));
  std::string& addresses = is_tls ? tls_addresses_ : addresses_;
  if (!is_path && shared_.identity.port == 0) {
    shared_.identity.port = ParseListenAddress(address).value().port;
  }
  addresses += (addresses.empty() ? "" : ",") + address;
  return Ok();
}

Status Gateway::OpenWorkers(Store& store) {
  const auto view = [](const OwnedListener& one) { return Listener{one.socket.get(), one.is_tls}; };
  for (size_t number = 0; number < options_.threads; ++number) {
    std::vector<Listener> own;
    for (const OwnedListener& one : listeners_[number]) own.push_back(view(one));
    if (number != 0) {
      // The sockets of paths are those of the first worker.
      for (size_t i = 0; i < options_.listen.size(); ++i) {
        if (IsPath(options_.listen[i])) own.push_back(view(listeners_.front()[i]));
      }
    }
    workers_.push_back(std::make_unique<Worker>(number, shared_, store, std::move(own), *metrics_));
    BOOST_OUTCOME_TRYV(workers_.back()->Open());
  }
  return Ok();
}

Status Gateway::FitMaxClients() {
  const uint64_t room = RoomForClients();
  const std::string limit = "`ulimit -n` is " + std::to_string(DescriptorLimit());
  if (room == 0) {
    return MakeError(Code::kUnsupported, limit + ", which leaves none for clients: raise it");
  }
  if (room >= options_.max_clients) return Ok();
  LOG(WARNING) << "--max_clients is " << room << " in place of " << options_.max_clients
               << ", because " << limit << ": raise its hard limit";
  options_.max_clients = static_cast<uint32_t>(room);
  return Ok();
}

Status Gateway::StartWorkers() {
  for (size_t number = 0; number < workers_.size(); ++number) {
    BOOST_OUTCOME_TRY(thread, StartThread("serve clients", [this, number] {
                        if (options_.pin) PinThisThread(number);
                        workers_[number]->Run();
                      }));
    threads_.push_back(std::move(thread));
  }
  return Ok();
}

}  // namespace gossamer::gateway
