// IdlePool: objects that are costly to make, kept for the next use.
//
// Unlike a lone member, a pool serves several users at once: coroutines that wait in between.
// Thread-safety: none. Cost: makes an object only when more are in use than ever before.
#pragma once

#include <memory>
#include <utility>
#include <vector>

namespace gossamer {

template <typename T>
class IdlePool {
 public:
  // An object in use; goes back to the pool when destroyed. The pool must outlive it.
  class [[nodiscard]] Lease {
   public:
    Lease(IdlePool& pool, std::unique_ptr<T> object) : pool_(pool), object_(std::move(object)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.idle_.push_back(std::move(object_)); }

    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    IdlePool& pool_;
    std::unique_ptr<T> object_;
  };

  // Takes an idle object, as its last user left it, or makes T(arguments...).
  template <typename... Arguments>
  Lease Take(const Arguments&... arguments) {
    if (idle_.empty()) return Lease(*this, std::make_unique<T>(arguments...));
    std::unique_ptr<T> object = std::move(idle_.back());
    idle_.pop_back();
    return Lease(*this, std::move(object));
  }

 private:
  std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace gossamer
