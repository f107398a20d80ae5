#include "base/inbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace baton {
namespace {

TEST(Inbox, RefusesWhenFullButNeverDropsPriorityMessages) {
  Inbox<int> inbox(2);
  EXPECT_TRUE(inbox.put(1));
  EXPECT_TRUE(inbox.put(2));
  EXPECT_FALSE(inbox.put(3));
  inbox.put_always(4);
  EXPECT_EQ(inbox.take(false), (std::vector<int>{1, 2, 4}));
  EXPECT_TRUE(inbox.take(false).empty());
}

TEST(Inbox, WakesAWaitingReaderOnMessageAndOnClose) {
  Inbox<int> inbox(10);
  std::thread writer([&] { EXPECT_TRUE(inbox.put(5)); });
  EXPECT_EQ(inbox.take(true), std::vector<int>{5});
  writer.join();
  std::thread closer([&] { inbox.close(); });
  EXPECT_TRUE(inbox.take(true).empty());
  closer.join();
  EXPECT_FALSE(inbox.put(6));
}

}  // namespace
}  // namespace baton
