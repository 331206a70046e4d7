// GOSSAMER.PEER: what another compute server of the store sends, over a connection like a client's.
//
//   GOSSAMER.PEER LOGIN token               +OK; then, without answers:
//   GOSSAMER.PEER PUBLISH channel message   for the clients of this gateway that listen to it
//   GOSSAMER.PEER SPUBLISH channel message  likewise, of shard channels
//
// Thread-safety: the client's worker.
#pragma once

#include <string_view>
#include <vector>

#include "compute/gateway/channels/channels.h"
#include "compute/gateway/connection/client.h"

namespace gossamer::gateway {

// `token`: of this gateway, not empty. A client that shows it is logged in, as if by a password.
void AnswerPeer(Client& client, const std::vector<std::string_view>& arguments,
                std::string_view token, Channels& channels);

}  // namespace gossamer::gateway
