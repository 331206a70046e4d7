#include "common/bootstrap/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/bootstrap/member_test_support.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;

class RequestsTest : public MemberTest {
 protected:
  Joined JoinSaving(std::optional<uint64_t> saved) {
    JoinOptions options;
    options.store = "s";
    options.fabric = "shm";
    options.saved = saved;
    return JoinStore(bootstrap_, options, Probe(),
                     [](const MemberIdentity& identity) -> Result<std::string> {
                       return fmt::format("address-{}", ToInteger(identity.server));
                     })
        .value();
  }
};

TEST_F(RequestsTest, AllNoteTheSameSet) {
  const Joined first = JoinSaving(0);
  const Joined second = JoinSaving(0);
  const StoreRecord asked = RequestSave(bootstrap_, "s").value();
  EXPECT_NE(asked.save, 0u);
  EXPECT_EQ(Record().value(), asked);
  const uint64_t set = SetOf(asked);
  const StoreRecord one = NoteSaved(bootstrap_, "s", first.identity, set, "/saved/s-0").value();
  EXPECT_FALSE(HaveAllSaved(one, set));
  EXPECT_EQ(SetOf(one), set);
  EXPECT_EQ(one.servers[0].region, "/saved/s-0");
  const StoreRecord both = NoteSaved(bootstrap_, "s", second.identity, set, "").value();
  EXPECT_TRUE(HaveAllSaved(both, set));
  EXPECT_FALSE(HaveAllSaved(both, set + 1));
  EXPECT_NE(RequestSave(bootstrap_, "s").value().save, asked.save);
}

// A server that serves again is another incarnation: who saves after that is not of the set.
TEST_F(RequestsTest, ASetNamesTheIncarnationsOfAll) {
  StoreRecord record = JoinSaving(0).record;
  const uint64_t set = SetOf(record);
  ++record.servers[0].incarnation;
  EXPECT_NE(SetOf(record), set);
  --record.servers[0].incarnation;
  record.servers[0].address = "other";
  record.save = 5;
  EXPECT_EQ(SetOf(record), set);
  ++record.store_id;
  EXPECT_NE(SetOf(record), set);
  EXPECT_EQ(SetOf({"s", 7, "shm", {}, 2, {{ServerId{0}, 5, "h", "p", "a"}}}), 0xbaab5deb9b6dcbc8u);
}

TEST_F(RequestsTest, Refusals) {
  EXPECT_EQ(RequestSave(bootstrap_, "s").error().code, Code::kNotFound);
  const Joined first = JoinSaving(0);
  JoinSaving(std::nullopt);
  const auto refused = RequestSave(bootstrap_, "s");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("server 1 (host "));
  EXPECT_THAT(refused.error().message, HasSubstr("--save=DIRECTORY"));
  MemberIdentity other = first.identity;
  ++other.incarnation;
  EXPECT_EQ(NoteSaved(bootstrap_, "s", other, 3, "").error().code, Code::kNotFound);
  EXPECT_EQ(Record().value().servers[0].saved, 0u);
}

}  // namespace
}  // namespace gossamer
