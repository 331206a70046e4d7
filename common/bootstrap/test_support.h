// For tests: bootstraps of both kinds, each in a place of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "common/bootstrap/bootstrap.h"
#include "common/testing/memcached_process.h"

namespace gossamer {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "gossamer-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A place for stores: "dir" or "memcached" by the test's parameter.
class BothBootstraps : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "memcached") {
      memcached_ = std::make_unique<MemcachedProcess>();
      ASSERT_TRUE(memcached_->running());
      url_ = memcached_->url();
    } else {
      url_ = "dir:" + directory_.path();
    }
    bootstrap_ = Open();
  }
  std::unique_ptr<Bootstrap> Open() const {
    auto bootstrap = OpenBootstrap(url_);
    if (!bootstrap) {
      ADD_FAILURE() << bootstrap.error().ToString();
      return nullptr;
    }
    return std::move(bootstrap).value();
  }

  TemporaryDirectory directory_;
  std::unique_ptr<MemcachedProcess> memcached_;
  std::string url_;
  std::unique_ptr<Bootstrap> bootstrap_;
};

}  // namespace gossamer
