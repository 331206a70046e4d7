#include "compute/gateway/worker/key_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "common/testing/seed.h"
#include "compute/gateway/testing/gateway_fixture.h"

namespace gossamer::gateway {
namespace {

class KeySamplerTest : public GatewayTest {
 protected:
  // Puts the keys alone into the store, and asks for two random keys for each.
  void ExpectUniform(const std::vector<std::string>& keys) {
    Connection client = Connect();
    client.Expect(Request({"FLUSHALL"}), "+OK\r\n");
    const auto session = std::move(store_->NewSession().value());
    for (const std::string& key : keys) ASSERT_TRUE(session->Put(key, "v"));
    const size_t draws = 2 * keys.size();
    std::map<std::string, size_t> times;
    for (size_t i = 0; i < draws; ++i) {
      client.Send(Request({"RANDOMKEY"}));
      ++times[client.ReceiveBulk()];
    }
    size_t most = 0;
    for (const auto& [key, count] : times) most = std::max(most, count);
    const double uniform = static_cast<double>(keys.size()) * (1 - std::exp(-2.0));
    EXPECT_GT(static_cast<double>(times.size()), 0.8 * uniform) << keys.front();
    EXPECT_LE(most, 20U) << keys.front();
  }
};

constexpr uint64_t kKeys = 3000;

TEST_F(KeySamplerTest, DrawsKeysOfUsualShapesAboutEquallyOften) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::mt19937_64 random(TestSeed());
  std::vector<std::string> hexadecimal;
  std::vector<std::string> numbered;
  std::vector<std::string> uneven{
      "a"};  // one key far from all others, and dense ones among sparse ones
  for (uint64_t i = 0; i < kKeys; ++i) {
    std::array<char, 33> text{};
    const auto number = static_cast<unsigned long long>(random());
    std::snprintf(text.data(), text.size(), "%016llx%016llx", number, number);
    hexadecimal.emplace_back(text.data());
    std::snprintf(text.data(), text.size(), "user:%06u", static_cast<unsigned>(i));
    numbered.emplace_back(text.data());
    uneven.push_back(i % 4 == 0 ? hexadecimal.back() : "x:" + numbered.back());
  }
  ExpectUniform(hexadecimal);
  ExpectUniform(numbered);
  ExpectUniform(uneven);
}

// Where a position in the middle is not shorter than keys may be, and where only bytes of 0 tell
// keys apart.
TEST_F(KeySamplerTest, DrawsEachOfTheLongestKeys) {
  ASSERT_NO_FATAL_FAILURE(Open());
  std::vector<std::string> keys;
  for (size_t i = 0; i < 20; ++i) keys.push_back("z" + std::string(i, '\0'));
  for (size_t i = 0; i < 40; ++i) {
    keys.push_back(std::string(249, 'k') + static_cast<char>('0' + i));
  }
  Connection client = Connect();
  const auto session = std::move(store_->NewSession().value());
  for (const std::string& key : keys) ASSERT_TRUE(session->Put(key, "v"));
  std::map<std::string, size_t> times;
  for (int i = 0; i < 4000; ++i) {
    client.Send(Request({"RANDOMKEY"}));
    ++times[client.ReceiveBulk()];
  }
  EXPECT_EQ(times.size(), keys.size());
  for (const std::string& key : keys) EXPECT_TRUE(times.contains(key)) << key;
}

}  // namespace
}  // namespace gossamer::gateway
