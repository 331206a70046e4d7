#include "common/fabric/verbs/thread_domain.h"

namespace gossamer::verbs {

ThreadDomain::ThreadDomain(const Device& device)
    : verbs_(device.verbs()), shared_(device.protection_domain()) {
  ibv_td_init_attr of_thread{};
  thread_.reset(ibv_alloc_td(verbs_, &of_thread));
  if (thread_ == nullptr) return;
  ibv_parent_domain_init_attr of_parent{};
  of_parent.pd = shared_;
  of_parent.td = thread_.get();
  parent_.reset(ibv_alloc_parent_domain(verbs_, &of_parent));
}

Result<CompletionQueue> ThreadDomain::NewCompletionQueue(int entries) const {
  ibv_cq_init_attr_ex wanted{};
  wanted.cqe = static_cast<uint32_t>(entries);
  wanted.wc_flags = IBV_WC_STANDARD_FLAGS;
  wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
  wanted.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  CompletionQueue queue;
  if (ibv_cq_ex* const made = ibv_create_cq_ex(verbs_, &wanted)) {
    queue.reset(ibv_cq_ex_to_cq(made));
  } else {
    queue.reset(ibv_create_cq(verbs_, entries, nullptr, nullptr, 0));
  }
  if (queue != nullptr) return queue;
  const int error = errno;
  return LockingError(
      Code::kNoResources,
      std::string("making a completion queue on ") + ibv_get_device_name(verbs_->device), error);
}

}  // namespace gossamer::verbs
