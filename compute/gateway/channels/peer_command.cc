#include "compute/gateway/channels/peer_command.h"

#include <openssl/crypto.h>

#include <cassert>

#include "compute/gateway/protocol/reply_writer.h"
#include "compute/gateway/protocol/words.h"

namespace gossamer::gateway {
namespace {

bool IsToken(std::string_view given, std::string_view token) {
  return given.size() == token.size() &&
         CRYPTO_memcmp(given.data(), token.data(), token.size()) == 0;
}

}  // namespace

void AnswerPeer(Client& client, const std::vector<std::string_view>& arguments,
                std::string_view token, Channels& channels) {
  assert(!token.empty());
  ReplyWriter reply(client.out, client.is_resp3);
  if (IsWord(arguments[1], "login")) {
    if (!IsToken(arguments[2], token)) {
      return reply.Error(
          "WRONGPASS this is not the token of this compute server: another one listens at the "
          "address, or it was started again");
    }
    client.is_peer = client.is_authenticated = true;
    client.entry().set_name("gossamer-peer");
    return reply.Ok();
  }
  if (!client.is_peer) {
    return reply.Error("NOAUTH this is for compute servers: clients send PUBLISH");
  }
  const bool is_shard = IsWord(arguments[1], "spublish");
  channels.Publish(is_shard ? ChannelKind::kShard : ChannelKind::kChannel, arguments[2],
                   arguments[3]);
}

}  // namespace gossamer::gateway
