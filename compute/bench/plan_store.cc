// What a plan asks of the store that it is for.
#include <fmt/core.h>

#include <memory>
#include <string>

#include "compute/bench/keys.h"
#include "compute/bench/plan.h"

namespace gossamer::bench {
namespace {

bool Writes(const Plan& plan) {
  if (plan.load) return true;
  for (const BenchOperation kind :
       {BenchOperation::kUpdate, BenchOperation::kInsert, BenchOperation::kReadModifyWrite}) {
    if (plan.run && plan.runner.workload.percent[static_cast<size_t>(kind)] != 0) return true;
  }
  return false;
}

}  // namespace

Status PlanDesign(const FlagValues& flags, Plan& plan) {
  if (flags.design == "gossamer") return Ok();
  const std::string what = "--design=" + flags.design;
  const auto wrong = [&what](const std::string& sentence) {
    return MakeError(Code::kInvalidArgument, what + sentence);
  };
  plan.research = sherman::FindDesign(flags.design);
  if (!plan.research) {
    return wrong(
        " is not one of naive, combined, on_chip, hierarchical, sherman (Sherman's evaluation), "
        "gossamer");
  }
  const RunnerOptions& runner = plan.runner;
  if (flags.local.empty()) return wrong(" is a store in this process: give --local");
  const bool has_numbers = flags.keys.empty() && runner.keys.form == KeyForm::kNumbers;
  if (!has_numbers || runner.keys.key_bytes != sherman::kKeyBytes ||
      runner.value_bytes != sherman::kValueBytes) {
    return wrong(
        fmt::format(" has keys of {} bytes and values of {} bytes only: leave out --key_bytes, "
                    "--key_form, --key_prefix, --keys and --value_bytes",
                    sherman::kKeyBytes, sherman::kValueBytes));
  }
  if (runner.batch > 1) return wrong(" does one operation after the other: leave out --batch");
  if (plan.load && runner.load_order == LoadOrder::kSorted) {
    return wrong(" has no LoadSorted: choose another --load_order than sorted");
  }
  return Ok();
}

Status CheckMayWrite(Store& store, const Plan& plan) {
  if (plan.may_meet_others_keys || !Writes(plan)) return Ok();
  BOOST_OUTCOME_TRY(session, store.NewSession());
  ScanOptions one_key;
  one_key.limit = 1;
  const std::unique_ptr<ScanCursor> first = session->Scan(one_key);
  if (!first->Next()) return first->status();
  return MakeError(
      Code::kInvalidArgument,
      "the store '" + plan.open.store +
          "' has keys, and this would write to it: if that is meant, say so by --store=" +
          plan.open.store + "; --local measures a store of its own instead");
}

Status CheckKeysFit(const Store& store, const Plan& plan) {
  const uint32_t longest = KeyCodec(plan.runner.keys).max_key_bytes();
  const uint32_t most = store.parameters().max_key_bytes;
  if (longest <= most) return Ok();
  return MakeError(
      Code::kInvalidArgument,
      fmt::format("the store '{}' takes keys of at most {} bytes, and these have up to {}: "
                  "take shorter keys, or a store of gossamer-memory --max_key_bytes={}",
                  plan.open.store, most, longest, longest));
}

}  // namespace gossamer::bench
