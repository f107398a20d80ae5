// Follows the text of one JSON object as it comes, character by character: where it ends, whether
// it is inside a string, and the first character that cannot belong to it (RFC 8259).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace baton {

class JsonStream {
 public:
  // False: `c` cannot follow, and nothing that comes later can make the text valid.
  bool push(char c);

  bool complete() const { return expect_ == Expect::kEnd; }
  bool in_string() const { return in_string_; }
  size_t depth() const { return open_.size(); }  // objects and lists that are open

 private:
  enum class Expect : uint8_t {
    kStart,     // the object
    kFirstKey,  // or }
    kKey,       // after a comma
    kColon,
    kValue,
    kFirstItem,  // or ]
    kNext,       // a comma, or the end of the list or object
    kEnd,
  };

  bool push_in_string(char c);
  bool push_structure(char c);
  bool begin_value(char c);
  bool open(char bracket, Expect next);
  bool close(char bracket);
  bool end_scalar();

  Expect expect_ = Expect::kStart;
  std::string open_;    // the brackets that are open
  std::string scalar_;  // a number, true, false or null so far
  bool in_string_ = false;
  bool escaped_ = false;
  int hex_digits_left_ = 0;  // of \uXXXX
};

}  // namespace baton
