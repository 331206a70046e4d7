// How often a test that draws its inputs does so.
#pragma once

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

// With a sanitizer a fifth: the code is ten times slower there, and the release build looks for wrong results in all rounds.
// What a sanitizer looks for, it finds whatever the result is.
constexpr int Rounds(int all) { return kIsSanitized ? (all + 4) / 5 : all; }

}  // namespace gossamer
