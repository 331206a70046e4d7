#include "common/status.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace gossamer {
namespace {

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (size_t code = 0; code < kCodes; ++code) {
    const std::string_view name = CodeName(static_cast<Code>(code));
    EXPECT_NE(name, "Unknown");
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(CodeName(static_cast<Code>(200)), "Unknown");
}

TEST(Status, AnErrorReadsAsCodeAndMessage) {
  EXPECT_EQ(MakeError(Code::kExhausted, "0 of 64 chunks free").ToString(),
            "Exhausted: 0 of 64 chunks free");
  EXPECT_EQ(MakeError(Code::kNotFound).ToString(), "NotFound");
}

Result<int> Half(int number) {
  if (number % 2 != 0) {
    return MakeError(Code::kInvalidArgument, fmt::format("{} is odd", number));
  }
  return number / 2;
}

Result<int> Quarter(int number) {
  BOOST_OUTCOME_TRY(half, Half(number));
  return Half(half);
}

Status CheckQuarter(int number) {
  BOOST_OUTCOME_TRYV(Quarter(number));
  return Ok();
}

TEST(Status, ErrorsPassThroughTry) {
  EXPECT_EQ(Quarter(12).value(), 3);
  EXPECT_EQ(Quarter(6).error().message, "3 is odd");
  EXPECT_TRUE(CheckQuarter(8));
  EXPECT_EQ(CheckQuarter(5).error().code, Code::kInvalidArgument);
}

TEST(Status, ResultsHoldMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(4);
  ASSERT_TRUE(result);
  EXPECT_EQ(*std::move(result).value(), 4);
}

TEST(StatusDeathTest, TakingTheValueOfAnErrorEndsTheProgram) {
  EXPECT_DEATH(static_cast<void>(Half(3).value()), "");
}

}  // namespace
}  // namespace gossamer
