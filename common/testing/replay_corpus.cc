// Gives a fuzzer's function each file of its corpus: what fuzzing has found stays tested without
// libFuzzer.
//
// A file that the function does not cope with ends the program. The last name it printed is that of
// the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "common/testing/built_paths.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace gossamer {
namespace {

TEST(Corpus, Replays) {
  const std::string corpus = SourceFile(GOSSAMER_CORPUS);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    files.push_back(entry.path());
  }
  ASSERT_FALSE(files.empty()) << corpus;
  std::ranges::sort(files);
  for (const std::filesystem::path& path : files) {
    std::cout << path.filename().string() << std::endl;
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    ASSERT_TRUE(file.is_open()) << path;
    // In memory of exactly that size, so that AddressSanitizer sees each byte read behind it.
    const auto data = std::make_unique<uint8_t[]>(bytes.size());
    std::ranges::copy(bytes, data.get());
    LLVMFuzzerTestOneInput(data.get(), bytes.size());
  }
}

}  // namespace
}  // namespace gossamer
