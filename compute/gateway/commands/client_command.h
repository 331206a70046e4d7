// CLIENT, of which the connections of all workers are the subject.
#pragma once

#include <string_view>
#include <vector>

#include "compute/gateway/connection/client.h"
#include "compute/gateway/connection/client_list.h"
#include "compute/gateway/connection/users.h"

namespace gossamer::gateway {

// Appends the answer to `client`'s output. CLIENT KILL may end this client, too: then it is
// closing.
void AnswerClient(Client& client, const std::vector<std::string_view>& arguments, ClientList& list,
                  const Users& users, ClientList::Clock::time_point now);

}  // namespace gossamer::gateway
