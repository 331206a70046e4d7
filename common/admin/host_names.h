// The names under which an admin endpoint is asked, as the header Host has them.
//
// A web page can have a name of its own resolve to the address of an endpoint that only this
// machine reaches, and read what it answers (DNS rebinding). The browser then asks for that name.
// So only names are answered that no page can have.
//
// Thread-safety: no shared state. Cost: some string operations.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gossamer {

// Whether a request with `host` ("10.0.0.3:7500", "localhost", "[::1]"; empty: it has none) is
// answered: if that is a numeric address, localhost, the name of this machine, or one of `names`,
// in any case. The port does not matter.
bool IsServedHost(std::string_view host, const std::vector<std::string>& names);

// The parts of "a.example,b.example" that are not empty.
std::vector<std::string> SplitAtCommas(std::string_view text);

}  // namespace gossamer
