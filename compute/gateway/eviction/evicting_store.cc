#include "compute/gateway/eviction/evicting_store.h"

#include "compute/gateway/eviction/evicting_session.h"

namespace gossamer::gateway {

Result<std::unique_ptr<EvictingStore>> EvictingStore::Open(Store& store, EvictionFigures& figures) {
  BOOST_OUTCOME_TRY(evictor, Evictor::Start(store, figures));
  return std::unique_ptr<EvictingStore>(new EvictingStore(store, std::move(evictor)));
}

Result<std::unique_ptr<Session>> EvictingStore::NewSession() {
  BOOST_OUTCOME_TRY(session, store_.NewSession());
  return std::unique_ptr<Session>(std::make_unique<EvictingSession>(std::move(session), *evictor_));
}

}  // namespace gossamer::gateway
