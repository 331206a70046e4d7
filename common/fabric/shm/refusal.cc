#include "common/fabric/shm/refusal.h"

#include <fcntl.h>
#include <glog/logging.h>

#include <span>

namespace gossamer::shm {

Welcome Refusal(const Error& error) {
  Welcome welcome;
  welcome.code = static_cast<uint32_t>(error.code);
  error.message.copy(welcome.reason.data(), welcome.reason.size() - 1);
  return welcome;
}

Error NoDescriptorHere() {
  return MakeError(Code::kNodeUnreachable, "the memory server has " + NoDescriptorText() +
                                               "; start it with a higher limit");
}

void DescriptorShortage::HoldSpare() {
  if (!spare_) spare_ = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

void DescriptorShortage::Refuse(const UniqueFd& socket) {
  const Welcome refusal = Refusal(NoDescriptorHere());
  SendMessage(socket, std::as_bytes(std::span(&refusal, 1)), {}, false);
  if (!is_logged_) LOG(WARNING) << "clients cannot connect: " << NoDescriptorText();
  is_logged_ = true;
}

bool DescriptorShortage::RefuseNext(ListeningSocket& listener) {
  if (!spare_) return false;
  spare_ = UniqueFd();
  bool refused = false;
  {
    const UniqueFd socket = listener.Accept();
    refused = static_cast<bool>(socket);
    if (refused) Refuse(socket);
  }
  HoldSpare();
  return refused;
}

void DescriptorShortage::NoteCannotAccept() {
  if (!is_logged_) LOG(WARNING) << ErrnoText("clients cannot connect") << "; trying again";
  is_logged_ = true;
}

}  // namespace gossamer::shm
