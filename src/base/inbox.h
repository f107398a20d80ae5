// A bounded queue of messages with many writers and one reader: how other threads talk to the
// thread that owns a piece of state. A full inbox refuses at once; nothing ever waits to write.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

namespace baton {

template <typename Message>
class Inbox {
 public:
  explicit Inbox(size_t capacity) : capacity_(capacity) {}

  // False when the inbox is full or closed; the message is then not taken.
  [[nodiscard]] bool put(Message&& message) {
    {
      const std::scoped_lock lock(mutex_);
      if (closed_ || messages_.size() >= capacity_) return false;
      messages_.push_back(std::move(message));
    }
    ready_.notify_one();
    return true;
  }

  // For messages that free resources (cancel, stop): never refused for lack of room.
  void put_always(Message&& message) {
    {
      const std::scoped_lock lock(mutex_);
      if (closed_) return;
      messages_.push_back(std::move(message));
    }
    ready_.notify_one();
  }

  // Takes all messages, in order. With `wait`, sleeps until there is one or close() is called.
  std::vector<Message> take(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) ready_.wait(lock, [this] { return closed_ || !messages_.empty(); });
    return std::exchange(messages_, {});
  }

  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

  size_t size() const {
    const std::scoped_lock lock(mutex_);
    return messages_.size();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Message> messages_;
  bool closed_ = false;
};

}  // namespace baton
