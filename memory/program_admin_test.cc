// Runs gossamer-memory with --admin, and asks it as an operator's tools do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/admin/testing/metrics_text.h"
#include "common/admin/testing/raw_client.h"
#include "common/bootstrap/test_support.h"
#include "common/fabric/open/open_port.h"
#include "common/random_id.h"
#include "common/testing/built_paths.h"
#include "common/testing/child_process.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class ProgramAdminTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& admin) const {
    return {BuiltFile("bin/gossamer-memory"),       "--memory=4MiB",   "--store=s", "--create=new",
            "--bootstrap=dir:" + directory_.path(), "--admin=" + admin};
  }
  // The words behind `word` in the line that says ready.
  static std::string WordAfter(const std::string& line, const std::string& word) {
    const size_t at = line.find(" " + word + " ");
    if (at == std::string::npos) return {};
    const size_t from = at + word.size() + 2;
    return line.substr(from, line.find_first_of(" \n", from) - from);
  }
  static std::string BodyOf(const std::string& reply) {
    return reply.substr(reply.find("\r\n\r\n") + 4);
  }

  const TemporaryDirectory directory_;
};

TEST_F(ProgramAdminTest, AnswersAllPaths) {
  ChildProcess server(Arguments("127.0.0.1:0"));
  ASSERT_TRUE(server.WaitForOutput("\n")) << server.standard_error();
  const std::string address = WordAfter(server.standard_output(), "admin");
  ASSERT_THAT(address, StartsWith("127.0.0.1:")) << server.standard_output();
  EXPECT_THAT(RawClient(address).Get("/healthz"), EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(RawClient(address).Get("/readyz"), EndsWith("\r\n\r\nready\n"));
  EXPECT_THAT(RawClient(address).Get("/"), HasSubstr("<!doctype html>"));
  EXPECT_THAT(RawClient(address).Get("/absent"), StartsWith("HTTP/1.1 404 "));

  const std::string metrics = BodyOf(RawClient(address).Get("/metrics"));
  EXPECT_THAT(ProblemsOfMetrics(metrics), IsEmpty());
  EXPECT_THAT(metrics,
              AllOf(HasSubstr("gossamer_build_info{"), HasSubstr("process_cpu_seconds_total "),
                    HasSubstr("gossamer_memory_compute_servers{store=\"s\",server=\"0\"} 0\n")));

  ComputePortOptions options;
  options.client_uuid = RandomId();
  const auto port = OpenComputePort(FabricKind::kShm, options).value();
  ASSERT_TRUE(port->Connect(ServerId{0}, WordAfter(server.standard_output(), "address")));
  const auto state = nlohmann::json::parse(BodyOf(RawClient(address).Get("/state")));
  EXPECT_EQ(state["program"], "gossamer-memory");
  EXPECT_EQ(state["servers"][0]["heap_bytes"], state["servers"][0]["free_bytes"]);
  EXPECT_FALSE(state.contains("not_ready"));

  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.standard_error();
  EXPECT_FALSE(RawClient(address).is_connected());
}

TEST_F(ProgramAdminTest, LivesButIsNotReadyWhileItStarts) {
  // It waits for a store to join that does not exist.
  auto arguments = Arguments("127.0.0.1:0");
  arguments.back() = "--admin=127.0.0.1:" + std::to_string(FreePort());
  arguments.emplace_back("--create=join");
  const std::string address = arguments[5].substr(8);
  ChildProcess server(arguments);
  while (!RawClient(address).is_connected())
    ASSERT_TRUE(server.Poll(10)) << server.standard_error();
  EXPECT_THAT(RawClient(address).Get("/healthz"), EndsWith("\r\n\r\nok\n"));
  EXPECT_THAT(RawClient(address).Get("/readyz"),
              AllOf(StartsWith("HTTP/1.1 503 "), EndsWith("the memory server is starting\n")));
  EXPECT_THAT(RawClient(address).Get("/state"),
              HasSubstr("\"not_ready\":\"the memory server is starting\""));
}

TEST_F(ProgramAdminTest, AddressThatIsTakenIsOneSentence) {
  ChildProcess first(Arguments("127.0.0.1:0"));
  ASSERT_TRUE(first.WaitForOutput("\n")) << first.standard_error();
  const std::string address = WordAfter(first.standard_output(), "admin");
  ChildProcess second(Arguments(address));
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_EQ(second.standard_output(), "");
  EXPECT_EQ(second.standard_error(), "gossamer-memory: cannot listen on " + address +
                                         ": Address already in use; give another --admin\n");
}

TEST_F(ProgramAdminTest, WrongAddressIsAWrongFlag) {
  ChildProcess server(Arguments("localhost:http"));
  EXPECT_EQ(server.Wait(), 2);
  EXPECT_THAT(server.standard_error(),
              HasSubstr("--admin: 'localhost:http' is no ADDRESS:PORT: give a numeric address"));
}

}  // namespace
}  // namespace gossamer
