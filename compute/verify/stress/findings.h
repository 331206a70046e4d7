// What is wrong with a stress run, printed as soon as it is known.
#pragma once

#include <iostream>
#include <string>

#include "common/status.h"

namespace gossamer::stress {

class Findings {
 public:
  void Wrong(const std::string& what) {
    good_ = false;
    std::cout << "WRONG: " << what << "\n" << std::flush;
  }
  void Require(const Status& status, const std::string& what) {
    if (!status) Wrong(what + ": " + status.error().ToString());
  }
  bool good() const { return good_; }

 private:
  bool good_ = true;
};

}  // namespace gossamer::stress
