// How often a random or exhaustive test repeats what it does.
#pragma once

#include <cstdint>

#include "common/testing/seed.h"

namespace gossamer {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
#else
inline constexpr bool kIsSanitized = false;
#endif

// Of a test that draws its inputs. With a sanitizer a fifth: the code is ten times slower there, and the release build looks
// for wrong results in all rounds. What a sanitizer looks for, it finds whatever the result is.
constexpr int Rounds(int all) { return kIsSanitized ? (all + 4) / 5 : all; }

// Of a test that breaks something at each place of a run: the distance between the places, and the first one. With a sanitizer
// they are every third place, from one on that the seed draws.
inline constexpr uint64_t kPlaceStep = kIsSanitized ? 3 : 1;
inline uint64_t FirstPlace() { return 1 + TestSeed() % kPlaceStep; }

}  // namespace gossamer
