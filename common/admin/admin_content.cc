#include "common/admin/admin_content.h"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "common/admin/host_names.h"
#include "common/admin/page.h"

namespace gossamer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPlainText = "text/plain; charset=utf-8";

AdminReply Metrics(const AdminContent& content) {
  std::vector<prometheus::MetricFamily> families;
  for (const auto& source : content.metrics) {
    std::vector<prometheus::MetricFamily> more = source->Collect();
    families.insert(families.end(), std::make_move_iterator(more.begin()),
                    std::make_move_iterator(more.end()));
  }
  return {.status = 200,
          .content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = prometheus::TextSerializer().Serialize(families),
          .allow = {}};
}

AdminReply Readiness(const AdminContent& content) {
  const Status ready = content.readiness ? content.readiness() : Status(Ok());
  return ready ? Sentence(200, "ready") : Sentence(503, ready.error().message);
}

AdminReply State(const AdminContent& content) {
  const Json state = content.state ? content.state() : Json::object();
  // Bytes that are no UTF-8, as of keys, must not throw.
  return {.status = 200,
          .content_type = "application/json",
          .body = state.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n",
          .allow = {}};
}

}  // namespace

AdminReply Sentence(unsigned status, std::string_view sentence) {
  return {.status = status,
          .content_type = kPlainText,
          .body = std::string(sentence) + "\n",
          .allow = {}};
}

AdminReply Answer(const AdminContent& content, std::string_view method, std::string_view host,
                  std::string_view target) {
  if (!IsServedHost(host, content.hosts)) {
    return Sentence(403,
                    "nothing is answered under this name of a host: ask for an address, for "
                    "localhost, or for a name that the server was given (--admin_hosts)");
  }
  if (method != "GET" && method != "HEAD") {
    AdminReply refused = Sentence(405, "only GET and HEAD are served here");
    refused.allow = "GET, HEAD";
    return refused;
  }
  const std::string_view path = target.substr(0, target.find('?'));
  if (path == "/metrics") return Metrics(content);
  if (path == "/healthz") return Sentence(200, "ok");
  if (path == "/readyz") return Readiness(content);
  if (path == "/state") return State(content);
  if (path == "/") {
    return {.status = 200,
            .content_type = "text/html; charset=utf-8",
            .body = std::string(PageHtml()),
            .allow = {}};
  }
  return Sentence(404, "nothing is here; there are /, /metrics, /healthz, /readyz and /state");
}

}  // namespace gossamer
