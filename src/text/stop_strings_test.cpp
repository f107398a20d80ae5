#include "text/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace baton {
namespace {

struct Streamed {
  std::string text;
  std::optional<size_t> found;
};

Streamed stream(const std::string& text,
                const std::vector<std::string>& stops,
                uint64_t cuts,
                bool include_stop = false) {
  StopStringMatcher matcher(stops, include_stop);
  Streamed result;
  std::string piece;
  for (size_t i = 0; i < text.size(); ++i) {
    piece += text[i];
    if (((cuts >> i) & 1U) == 0) continue;
    result.text += matcher.push(piece);
    piece.clear();
  }
  result.text += matcher.push(piece);
  result.text += matcher.finish();
  result.found = matcher.found();
  return result;
}

// What any streaming has to agree with: the stop that is complete first, cut off or kept.
Streamed search(const std::string& text, const std::vector<std::string>& stops, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t best = stops.size();
    for (size_t i = 0; i < stops.size(); ++i) {
      if (stops[i].empty() || !std::string_view(text).substr(0, end).ends_with(stops[i])) continue;
      if (best == stops.size() || stops[i].size() > stops[best].size()) best = i;
    }
    if (best == stops.size()) continue;
    return {text.substr(0, include_stop ? end : end - stops[best].size()), best};
  }
  return {text, std::nullopt};
}

TEST(StopStrings, NothingOfAStopStringIsShown) {
  StopStringMatcher matcher({"DEFGHIJ"});
  std::string shown;
  for (const char c : std::string("ABCDEFGHIJKL")) {
    shown += matcher.push(std::string(1, c));
    EXPECT_EQ(shown, std::string("ABC").substr(0, shown.size()));
  }
  EXPECT_EQ(shown + matcher.finish(), "ABC");
  EXPECT_EQ(matcher.found(), 0U);
}

TEST(StopStrings, NothingIsLostWhenItWasNotAStopString) {
  EXPECT_EQ(stream("ABCDEFGX", {"DEFGHIJ"}, ~uint64_t{0}).text, "ABCDEFGX");
  EXPECT_EQ(stream("a\n\nObsolete", {"\n\nObs:"}, ~uint64_t{0}).text, "a\n\nObsolete");
  EXPECT_EQ(stream("ABCDEF", {"DEFGHIJ"}, ~uint64_t{0}).text, "ABCDEF");
}

TEST(StopStrings, OnlyARealPrefixWaits) {
  StopStringMatcher matcher({"b,c", "ZZZZZZZZZZZZZZZZZZZZ"});
  EXPECT_EQ(matcher.push("<think>p</think>answer"), "<think>p</think>answer");
  EXPECT_EQ(matcher.push(", b"), ", ");
  EXPECT_EQ(matcher.push(" "), "b ");
}

TEST(StopStrings, TheStopStringCanBeKept) {
  EXPECT_EQ(stream("one\nUser: two", {"\nUser:"}, ~uint64_t{0}, true).text, "one\nUser:");
  EXPECT_EQ(stream("one\nUser: two", {"\nUser:"}, 0, true).text, "one\nUser:");
}

TEST(StopStrings, AnEmptyStopStringStopsNothing) {
  EXPECT_EQ(stream("abc", {"", "x"}, ~uint64_t{0}).text, "abc");
}

TEST(StopStrings, EveryCuttingGivesTheSameText) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 400; ++round) {
    std::string text(random() % 11, ' ');
    for (char& c : text) c = "abc"[random() % 3];
    std::vector<std::string> stops(1 + random() % 3);
    for (std::string& stop : stops) {
      stop.resize(random() % 5);
      for (char& c : stop) c = "abc"[random() % 3];
    }
    const bool include_stop = random() % 2 == 0;
    const Streamed expected = search(text, stops, include_stop);
    for (uint64_t cuts = 0; cuts < (uint64_t{1} << text.size()); ++cuts) {
      const Streamed streamed = stream(text, stops, cuts, include_stop);
      ASSERT_EQ(streamed.text, expected.text) << text;
      ASSERT_EQ(streamed.found, expected.found) << text;
    }
  }
}

}  // namespace
}  // namespace baton
