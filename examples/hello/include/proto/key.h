// The keys of this program: "jupiter/io". All moons of a planet have its prefix.
#pragma once

#include <string>
#include <string_view>

inline std::string PlanetPrefix(std::string_view planet) { return std::string(planet) + "/"; }

inline std::string MoonKey(std::string_view planet, std::string_view moon) {
  return PlanetPrefix(planet) + std::string(moon);
}
