// BootstrappedStore: memory servers in this process that meet in a directory of the test, and
// stores opened on them as a program opens them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/bootstrap/bootstrap.h"
#include "common/bootstrap/test_support.h"
#include "common/embedded_memory.h"
#include "gossamer/store.h"

namespace gossamer {

class BootstrappedStore : public ::testing::Test {
 protected:
  // Listens at `listen`, or at a new path if that is empty. `region`: as in EmbeddedMemoryOptions.
  std::unique_ptr<EmbeddedMemory> StartMemory(const std::string& listen = {},
                                              const std::string& region = {}) {
    EmbeddedMemoryOptions options;
    options.memory_bytes = uint64_t{16} << 20;
    options.bootstrap = bootstrap_.get();
    options.listen = listen;
    options.region = region;
    auto memory = StartEmbeddedMemory(options);
    EXPECT_TRUE(memory) << memory.error().ToString();
    return std::move(memory.value());
  }
  std::unique_ptr<Store> Open(uint32_t reconnect_ms = OpenOptions().reconnect_ms) {
    OpenOptions options;
    options.reconnect_ms = reconnect_ms;
    options.bootstrap = bootstrap_->url();
    auto store = Store::Open(options);
    EXPECT_TRUE(store) << store.error().ToString();
    return std::move(store.value());
  }

  const TemporaryDirectory directory_;
  const std::unique_ptr<Bootstrap> bootstrap_ = OpenBootstrap("dir:" + directory_.path()).value();
};

}  // namespace gossamer
