// RecordedModifier: the function of a modify, which tells the recorder what it replaces by what.
//
// Each call draws a value of its own. So a value is read only if the call that drew it was the last
// one, and its operation has changed the key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compute/verify/sim/client.h"
#include "gossamer/modifier.h"

namespace gossamer::simulator {

class RecordedModifier final : public ValueModifier {
 public:
  // `operation` is under way on `lane`.
  RecordedModifier(SimulatedClient& client, const OpenSession& session, uint32_t lane,
                   const PlannedOperation& operation)
      : client_(client), session_(session), lane_(lane), operation_(operation) {}

  Change Modify(std::optional<std::string_view> value, Expiry expiry) override;

 private:
  // When what is put expires, of a key that does so at `before`.
  Expiry NewExpiry(Expiry before) const;

  SimulatedClient& client_;
  const OpenSession& session_;
  const uint32_t lane_;
  const PlannedOperation operation_;
  std::string bytes_;  // of the value put last
};

}  // namespace gossamer::simulator
