// What a program may say about its RDMA device and its connections, fabric "verbs".
#pragma once

#include <cstdint>
#include <string>

namespace gossamer {

// What is left out is discovered. The address of a memory server selects device, port and GID; what
// is given here is checked against it, so that a wrong cable or setting is an error and not a
// slower or a lossy path. Only `traffic_class` sets something.
struct RdmaOptions {
  std::string device = {};  // "mlx5_0"; empty: the one of the address
  uint32_t port = 0;        // of the device, from 1; 0: the one of the address
  // Of the port's GID table, 0 to 255; -1: the connection manager's choice. A client connects from
  // this GID's address.
  int32_t gid_index = -1;
  uint32_t path_mtu = 0;  // bytes: 256, 512, 1024, 2048 or 4096; 0: any
  // Of the packets sent: the traffic class of the IP header, DSCP << 2 | ECN, 0 to 255, by which switches
  // choose a queue; -1: the connection manager's default.
  int32_t traffic_class = -1;

  bool operator==(const RdmaOptions&) const = default;
};

}  // namespace gossamer
