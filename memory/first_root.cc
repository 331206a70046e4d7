#include "memory/first_root.h"

#include <cstring>

namespace gossamer {

void WriteFirstRoot(std::span<std::byte> region, const StoreParameters&, ServerId server) {
  const uint64_t root = RootWord(RemotePtr(server, kFirstLeafOffset, 0), 0).word();
  std::memcpy(region.data() + kRootWordOffset, &root, sizeof root);
}

}  // namespace gossamer
