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

}  // namespace gossamer::verbs
