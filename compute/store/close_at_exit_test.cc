// A store in a static or thread-local variable is closed after other thread-local objects of the
// thread are destroyed. Under AddressSanitizer this test fails on any use after destruction.
#include <gtest/gtest.h>

#include <string>

#include "common/testing/built_paths.h"
#include "common/testing/child_process.h"

namespace gossamer {
namespace {

class CloseAtExitTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CloseAtExitTest, AStoreIsClosedByTheDestructorOfAVariable) {
  ChildProcess program({BuiltFile("test/close_at_exit"), GetParam()});
  EXPECT_EQ(program.Wait(), 0);
  EXPECT_EQ(program.standard_error(), "");
}

INSTANTIATE_TEST_SUITE_P(Variables, CloseAtExitTest,
                         ::testing::Values("static", "function_static", "thread_local", "thread"),
                         [](const auto& variable) { return variable.param; });

}  // namespace
}  // namespace gossamer
