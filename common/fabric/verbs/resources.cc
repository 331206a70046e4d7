#include "common/fabric/verbs/resources.h"

#include <fcntl.h>

namespace gossamer::verbs {

Status SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return ErrnoError(Code::kUnsupported, "making an event channel non-blocking");
  }
  return Ok();
}

uint8_t AckTimeoutExponent(uint32_t timeout_ms, uint32_t retries) {
  const double bound_us = timeout_ms * 1000.0 / 2 / (retries + 1);
  uint8_t exponent = 8;  // 1 ms; a shorter timeout takes a busy peer for a dead one
  while (exponent < 31 && 4.096 * static_cast<double>(uint64_t{2} << exponent) <= bound_us) {
    ++exponent;
  }
  return exponent;
}

}  // namespace gossamer::verbs
