#include "local_server.h"

#include "server/routes.h"

namespace baton {

Result<std::unique_ptr<LocalServer>> LocalServer::start(const EngineFlags& flags) {
  Result<std::unique_ptr<LoadedEngine>> loaded = load_engine(flags);
  if (!loaded) return loaded.error();
  std::unique_ptr<LocalServer> local(new LocalServer);
  local->loaded_ = std::move(*loaded);
  ServiceOptions options;
  options.model_names = {flags.model};
  options.worker_threads = 1;
  local->service_ = std::make_unique<Service>(std::move(options));
  local->service_->set_ready(local->loaded_->served);
  Result<std::unique_ptr<HttpServer>> server =
      open_api_server(*local->service_, {"127.0.0.1", 0, ""}, {}, 1);
  if (!server) return server.error();
  local->server_ = std::move(*server);
  return local;
}

LocalServer::~LocalServer() {
  if (!server_) return;
  server_->stop();
  service_->workers().close();
  loaded_->engine.reset();  // its last words still need the server's memory
}

}  // namespace baton
