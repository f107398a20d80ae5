// A model served to this process only: engine and HTTP server on a loopback port of its own. The
// terminal verbs then speak to it as to any other server, so there is one way through the code.
#pragma once

#include <memory>
#include <string>

#include "api_client.h"
#include "engine_options.h"
#include "server/http/server.h"
#include "server/service.h"

namespace baton {

class LocalServer {
 public:
  static Result<std::unique_ptr<LocalServer>> start(const EngineFlags& flags);
  ~LocalServer();

  ServerAddress address() const { return {"127.0.0.1", server_->port()}; }

 private:
  LocalServer() = default;

  std::unique_ptr<LoadedEngine> loaded_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace baton
