// What an admin endpoint serves, and the answer to one request, apart from any socket.
//
//   /metrics   the families of `metrics`, as Prometheus text 0.0.4
//   /healthz   200 "ok": the process serves
//   /readyz    200 "ready", or 503 with the reason
//   /state     the JSON of `state`, for the page and for scripts
//   /          a page that draws /state
//
// Invariant: the callbacks are called by one thread, that of the endpoint, one at a time. They must
// return soon, and must not wait for a thread of the data path: they copy what such threads have
// published.
// Thread-safety: none; the endpoint's thread.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace gossamer {

struct AdminContent {
  std::vector<std::shared_ptr<prometheus::Collectable>> metrics;
  // An error's message is the reason why this process cannot do its work now. Empty: always ready.
  std::function<Status()> readiness;
  // Empty: an empty object.
  std::function<nlohmann::ordered_json()> state;
  // Names of this machine in requests, beside those that IsServedHost knows.
  std::vector<std::string> hosts;
};

struct AdminReply {
  unsigned status = 200;
  std::string_view content_type;
  std::string body;
  std::string_view allow;  // for status 405; otherwise empty
};

// `method`: in capitals. `host`: whom the request is for, as in its header. `target`: a path; a
// query behind it is ignored. For HEAD, the body is that of GET: the caller does not send it.
AdminReply Answer(const AdminContent& content, std::string_view method, std::string_view host,
                  std::string_view target);

// A reply of one sentence.
AdminReply Sentence(unsigned status, std::string_view sentence);

}  // namespace gossamer
