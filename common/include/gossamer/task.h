// Task<T>: a lazily started coroutine, and the pool of its frames.
//
// A task starts when it is awaited, spawned or run, and runs on one thread from start to end. A
// child that finishes without suspending returns directly to its parent, so the stack is never
// deeper than the nesting of awaits, whether or not the compiler does symmetric transfer (without
// optimisation or under sanitizers it does not). A task that suspended resumes its parent when it
// ends.
//
// Cost: frames come from thread-local free lists, one for each 64 B of size below 24 KiB; the
// steady state allocates nothing.
// Thread-safety: none; a task belongs to the thread that runs it.
#pragma once

#include <array>
#include <cassert>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace gossamer {

// Thread-local free lists of coroutine frames.
//
// Coroutines also run in destructors of static and thread-local objects, such as an open store,
// perhaps after the destructors of this thread's other thread-local objects. So the lists have no
// destructor and stay usable as long as the thread lives. A thread frees its pooled frames during
// the destruction of its thread-local objects; from then on frames come from operator new and
// return to operator delete.
class FramePool {
 public:
  static void* Allocate(size_t bytes) {
    const size_t size_class = SizeClass(bytes);
    if (size_class >= kClasses) return ::operator new(bytes);
    FreeFrame*& head = lists_.heads[size_class];
    if (head == nullptr) return ::operator new(size_class * kGrain);
    FreeFrame* frame = head;
    head = frame->next;
    return frame;
  }

  static void Free(void* frame, size_t bytes) {
    const size_t size_class = SizeClass(bytes);
    const bool is_pooled = size_class < kClasses && (lists_.phase == Phase::kInUse || StartToUse());
    if (!is_pooled) {
      ::operator delete(frame);
      return;
    }
    FreeFrame*& head = lists_.heads[size_class];
    head = ::new (frame) FreeFrame{head};
  }

 private:
  static constexpr size_t kGrain = 64;
  // Frames of less than 24 KiB: clang's are larger than those of g++, above all with
  // ThreadSanitizer.
  static constexpr size_t kClasses = 385;

  struct FreeFrame {
    FreeFrame* next;
  };
  enum class Phase : uint8_t { kUnused, kInUse, kEnded };
  struct Lists {
    std::array<FreeFrame*, kClasses> heads;
    Phase phase;
  };
  static_assert(std::is_trivially_destructible_v<Lists>);
  // Frees the pooled frames when the thread's thread-local objects are destroyed.
  struct AtThreadExit {
    AtThreadExit() { lists_.phase = Phase::kInUse; }
    AtThreadExit(const AtThreadExit&) = delete;
    AtThreadExit& operator=(const AtThreadExit&) = delete;
    ~AtThreadExit() {
      lists_.phase = Phase::kEnded;
      for (FreeFrame*& head : lists_.heads) {
        while (head != nullptr) ::operator delete(std::exchange(head, head->next));
      }
    }
  };

  static size_t SizeClass(size_t bytes) { return (bytes + kGrain - 1) / kGrain; }
  // Called when a thread frees its first frame. Returns false if the thread's pool has ended.
  [[gnu::noinline]] static bool StartToUse() {
    if (lists_.phase == Phase::kEnded) return false;
    static thread_local AtThreadExit at_thread_exit;
    return true;
  }

  inline static constinit thread_local Lists lists_{};
};

template <typename T>
class Task;

namespace internal {

class PromiseBase {
 public:
  static void* operator new(size_t bytes) { return FramePool::Allocate(bytes); }
  static void operator delete(void* frame, size_t bytes) { FramePool::Free(frame, bytes); }

  std::suspend_always initial_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() noexcept { std::abort(); }

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> self) noexcept {
      PromiseBase& promise = self.promise();
      // Still inside the parent's await_suspend, whose return continues the parent.
      if (promise.starting_) return;
      if (promise.continuation_) promise.continuation_.resume();
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }

  // Runs `self` until it ends or suspends. Returns whether the parent must wait for it.
  template <typename Promise>
  static bool Start(std::coroutine_handle<Promise> self, std::coroutine_handle<> continuation) {
    PromiseBase& promise = self.promise();
    promise.continuation_ = continuation;
    promise.starting_ = true;
    self.resume();
    promise.starting_ = false;
    return !self.done();
  }

 private:
  std::coroutine_handle<> continuation_;
  bool starting_ = false;
};

template <typename T>
class Promise : public PromiseBase {
 public:
  Task<T> get_return_object();
  template <typename U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T Take() { return std::move(*value_); }

 private:
  std::optional<T> value_;
};

template <>
class Promise<void> : public PromiseBase {
 public:
  Task<void> get_return_object();
  void return_void() {}
  void Take() {}
};

}  // namespace internal

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      Destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() { Destroy(); }

  struct Awaiter {
    Handle handle;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> parent) {
      return internal::PromiseBase::Start(handle, parent);
    }
    T await_resume() { return handle.promise().Take(); }
  };
  Awaiter operator co_await() const& noexcept { return Awaiter{handle_}; }
  Awaiter operator co_await() && noexcept { return Awaiter{handle_}; }

  // For what runs a task without awaiting it: `resume` starts the coroutine, which is `done` once
  // `Take` may be called. Requires (unchecked): nothing awaits the task.
  std::coroutine_handle<> handle() const { return handle_; }
  // Returns: the coroutine's value, once. Requires: it is done.
  T Take() {
    assert(handle_.done());
    return handle_.promise().Take();
  }

 private:
  void Destroy() {
    if (handle_) handle_.destroy();
  }

  Handle handle_;
};

namespace internal {

template <typename T>
Task<T> Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}

inline Task<void> Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}

// A coroutine without an awaiter: starts at once and frees itself at its end.
struct Detached {
  struct promise_type {
    static void* operator new(size_t bytes) { return FramePool::Allocate(bytes); }
    static void operator delete(void* frame, size_t bytes) { FramePool::Free(frame, bytes); }
    Detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    [[noreturn]] void unhandled_exception() noexcept { std::abort(); }
  };
};

}  // namespace internal
}  // namespace gossamer
