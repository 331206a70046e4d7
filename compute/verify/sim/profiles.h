// Profiles: each narrows a drawn plan to schedules in which some rule of the protocol matters.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "common/random.h"
#include "compute/verify/sim/plan.h"

namespace gossamer::simulator {

struct Profile {
  std::string_view name;
  std::string_view what;
  void (*narrow)(Random& random, Plan& plan);  // called after everything else is drawn
};

std::span<const Profile> Profiles();
// Returns: null if no profile has this name.
const Profile* FindProfile(std::string_view name);

// The profiles that a seed draws; then later additions, and behind these the one that comes with
// its fault. Those of memory servers that come back are the last ones.
inline constexpr size_t kLaterProfiles = 4;
inline constexpr size_t kDrawnProfiles = 11;
inline constexpr size_t kPartitionProfile = kDrawnProfiles + kLaterProfiles;
inline constexpr size_t kFirstReturnProfile = 45;
inline constexpr size_t kReturnProfiles = 3;

}  // namespace gossamer::simulator
