#include "memory/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

namespace gossamer {
namespace {

using ::testing::HasSubstr;

MemoryServerOptions Good() {
  MemoryServerOptions options;
  options.memory_bytes = 64 << 20;
  return options;
}

TEST(Options, FillsInDefaults) {
  MemoryServerOptions options = Good();
  options.memory_bytes += 100;
  const auto complete = CompleteOptions(options);
  ASSERT_TRUE(complete) << complete.error().ToString();
  EXPECT_EQ(complete.value().memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(complete.value().chunk_bytes, uint64_t{1} << 20);
  EXPECT_EQ(complete.value().lock_table_bytes, uint64_t{256} << 10);
}

TEST(Options, ChunksFollowTheMemory) {
  EXPECT_EQ(DefaultChunkBytes(1 << 20), uint64_t{256} << 10);
  EXPECT_EQ(DefaultChunkBytes(uint64_t{100} << 20), uint64_t{1} << 20);
  EXPECT_EQ(DefaultChunkBytes(uint64_t{1} << 30), uint64_t{16} << 20);
  EXPECT_EQ(DefaultChunkBytes(uint64_t{1} << 40), uint64_t{32} << 20);
}

// Clients in any directory find the socket by the path in the store's record.
TEST(Options, SocketPathsBecomeAbsolute) {
  const std::filesystem::path here = std::filesystem::current_path();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a.sock", here / "a.sock"},     {"./x/../a.sock", here / "a.sock"},
      {"/run//a.sock", "/run/a.sock"}, {"./127.0.0.1:5000", here / "127.0.0.1:5000"},
      {"a:b", here / "a:b"},           {"", ""}};
  for (const auto& [given, expected] : cases) {
    MemoryServerOptions options = Good();
    options.listen = given;
    const auto complete = CompleteOptions(options);
    ASSERT_TRUE(complete) << complete.error().ToString();
    EXPECT_EQ(complete.value().listen, expected);
  }
}

TEST(Options, SaysWhatIsWrong) {
  const std::vector<std::pair<std::function<void(MemoryServerOptions&)>, std::string>> cases = {
      {[](auto& o) { o.memory_bytes = 0; }, "--memory=0: too little for one chunk"},
      {[](auto& o) { o.memory_bytes = 200 << 10; },
       "give at least --memory=270336, or smaller --chunk_bytes"},
      {[](auto& o) { o.memory_bytes = uint64_t{9} << 40; },
       "at most 8 TiB, and this is 9 TiB; start several"},
      {[](auto& o) { o.chunk_bytes = 5000; }, "--chunk_bytes=5000: give a power of two"},
      {[](auto& o) { o.chunk_bytes = 128 << 20; }, "too little for one chunk of 128 MiB"},
      {[](auto& o) { o.lock_table_bytes = 100; }, "--lock_table_bytes=100: give a power of two"},
      {[](auto& o) { o.lock_table_bytes = 4; }, "--lock_table_bytes=4"},
      {[](auto& o) { o.parameters.node_bytes = 1000; }, "--node_bytes=1000: give a power of two"},
      {[](auto& o) { o.parameters.node_bytes = 8192; }, "between 256 and 4096"},
      {[](auto& o) { o.parameters.max_key_bytes = 0; }, "--max_key_bytes=0: give 1 to 250"},
      {[](auto& o) { o.parameters.inline_value_bytes = 65; },
       "--inline_value_bytes=65: give 0 to 64"},
      {[](auto& o) { o.lease_ms = 99; }, "--lease_ms=99: clients cannot renew"},
      {[](auto& o) { o.join.store = "a b"; }, "store name 'a b'"},
      {[](auto& o) {
         o.join.replace_store = true;
         o.join.create = CreateMode::kJoin;
       },
       "--replace_store creates a store and --create=join never does"},
      {[](auto& o) { o.listen = "127.0.0.1:5000"; },
       "--listen=127.0.0.1:5000: --fabric=shm listens at the path of a Unix socket"},
      {[](auto& o) { o.listen = "[::1]:5000"; }, "--listen=[::1]:5000: --fabric=shm"},
      {[](auto& o) { o.listen = "localhost:5000"; }, "give --listen=PATH with a '/'"},
      {[](auto& o) { o.fabric = FabricKind::kVerbs; },
       "--fabric=verbs needs --listen=ADDRESS:PORT"},
  };
  for (const auto& [spoil, sentence] : cases) {
    MemoryServerOptions options = Good();
    spoil(options);
    const auto complete = CompleteOptions(options);
    ASSERT_FALSE(complete) << sentence;
    EXPECT_EQ(complete.error().code, Code::kInvalidArgument);
    EXPECT_THAT(complete.error().message, HasSubstr(sentence));
  }
}

}  // namespace
}  // namespace gossamer
