#include "engine/token_stream.h"

#include <exception>
#include <string>

#include "base/check.h"
#include "base/log.h"

namespace baton {

bool TokenStream::send() {
  started_ = true;
  StreamUpdate update = std::exchange(pending_, {});
  // The function is the server's and may call libraries that throw; the engine thread goes on.
  try {
    deliver_(std::move(update));
    return true;
  } catch (const std::exception& error) {
    log_error(std::string("a request's deliver function threw: ") + error.what());
  } catch (...) {
    log_error("a request's deliver function threw");
  }
  return false;
}

bool TokenStream::flush() {
  const size_t enough = started_ ? static_cast<size_t>(interval_) : 1;
  if (pending_.tokens.size() < enough) return true;
  return send();
}

void TokenStream::finish(Finish finish) {
  BATON_CHECK(!finished_, "a request finished twice");
  finished_ = true;
  pending_.finish = std::move(finish);
  send();
}

}  // namespace baton
