// The transport alone, over loopback: what no handler should have to think of.
#include <gtest/gtest.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "server/testing/http_client.h"
#include "server/testing/test_server.h"

namespace baton {
namespace {

// Answers every request with its path and counts them.
class EchoServer {
 public:
  explicit EchoServer(HttpLimits limits = {}, HttpRefusal refuse_early = {}) {
    auto server = HttpServer::open(
        {"127.0.0.1", 0, ""},
        limits,
        2,
        [this](const std::shared_ptr<Exchange>& exchange) {
          ++requests;
          exchange->respond({.body = exchange->request().path + " " + exchange->take_body()});
        },
        std::move(refuse_early));
    EXPECT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  uint16_t port() const { return server_->port(); }

  std::atomic<int> requests = 0;

 private:
  std::unique_ptr<HttpServer> server_;
};

TEST(HttpServer, NeverAnswersLaterWhatItRefusedForBeingSlow) {
  HttpLimits limits;
  limits.header_seconds = 0.05;
  limits.body_stall_seconds = 0.05;
  EchoServer server(limits);
  for (const auto& [begin, rest] :
       {std::pair<std::string, std::string>{"GET /late HT", "TP/1.1\r\n\r\n"},
        {"POST /late HTTP/1.1\r\nContent-Length: 10\r\n\r\n12345", "67890"}}) {
    TestClient client(server.port());
    client.send(begin);
    ASSERT_TRUE(client.read_until("408 Request Timeout"));
    client.send(rest);
    EXPECT_TRUE(client.at_end()) << "the connection ends";
    EXPECT_EQ(client.received().find("/late"), std::string::npos) << client.received();
  }
  EXPECT_EQ(server.requests, 0);
}

TEST(HttpServer, BoundsWhatSurroundsTheChunksOfABody) {
  EchoServer server;
  for (const std::string before : {"1;", "1\r\nx\r\n0\r\nTrailer: "}) {
    TestClient client(server.port());
    client.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + before);
    client.send(std::string(1 << 20, 'a'));
    EXPECT_EQ(client.read_response().status, 431);
  }
  EXPECT_EQ(server.requests, 0);
}

TEST(HttpServer, RefusesBodiesInACodingItDoesNotKnow) {
  EchoServer server;
  for (const std::string coding : {"gzip", "gzip, chunked", "identity"}) {
    TestClient client(server.port());
    client.send("POST / HTTP/1.1\r\nTransfer-Encoding: " + coding +
                "\r\n\r\nGET /inside HTTP/1.1\r\n\r\n");
    const TestResponse response = client.read_response();
    EXPECT_EQ(response.status, 501) << coding;
    EXPECT_TRUE(response.closed);
  }
  EXPECT_EQ(server.requests, 0) << "what follows is a body, not a request";
}

TEST(HttpServer, TakesChunkedBodiesOfAnyCut) {
  EchoServer server;
  TestClient client(server.port());
  client.send(
      "POST /p HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "1\r\na\r\n3;name=value\r\nbcd\r\n0\r\nAuthorization: trailer\r\n\r\n");
  EXPECT_EQ(client.read_response().body, "/p abcd");
  EXPECT_EQ(client.get("/next").body, "/next ");
}

TEST(HttpServer, KnowsPathsOfWholeUrls) {
  EchoServer server;
  TestClient client(server.port());
  for (const auto& [target, path] :
       {std::pair<std::string, std::string>{"http://any:80/a?b", "/a "},
        {"http://any", "/ "},
        {"/http://any", "/http://any "}}) {
    EXPECT_EQ(client.get(target).body, path);
  }
}

TEST(HttpServer, RefusesByTheHeadBeforeABodyIsSent) {
  EchoServer server({}, [](const HttpRequest& head) {
    std::optional<HttpResponse> refusal;
    if (head.header("x-key").empty()) refusal.emplace().status = 401;
    return refusal;
  });
  const std::string waits = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n";
  TestClient refused(server.port());
  refused.send(waits + "\r\n");
  const TestResponse response = refused.read_response();
  EXPECT_EQ(response.status, 401);
  EXPECT_TRUE(response.closed) << "where the body would begin is not known";
  EXPECT_FALSE(response.headers.at("x-request-id").empty());
  EXPECT_EQ(server.requests, 0);

  TestClient taken(server.port());
  taken.send(waits + "X-Key: 1\r\n\r\n");
  EXPECT_EQ(taken.read_response().status, 100);
  taken.send("abcde");
  EXPECT_EQ(taken.read_response().body, "/ abcde");
}

TEST(HttpServer, SaysContinueToThoseWhoKnowItOnly) {
  EchoServer server;
  TestClient old(server.port());
  old.send("POST /old HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx");
  const TestResponse response = old.read_response();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "/old x");
}

TEST(HttpServer, ForgetsOneRequestBeforeTheNext) {
  EchoServer server;
  TestClient client(server.port());
  client.send("HEAD /head HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(client.read_until("\r\n\r\n"));
  client.send("nonsense\r\n\r\n");
  EXPECT_TRUE(client.read_until("malformed")) << "only the answer to HEAD has no body";
}

TEST(HttpServer, LetsASlowClientReadAsLongAsItGoesOn) {
  HttpLimits limits;
  limits.ping_seconds = 0.05;
  limits.write_stall_seconds = 0.4;
  const std::string body(32 << 20, 'x');
  auto server = HttpServer::open({"127.0.0.1", 0, ""}, limits, 1, [&](const auto& exchange) {
    exchange->respond({.body = body});
  });
  ASSERT_TRUE(server);
  // 32 MB at about 20 MB/s, four times as long as it may stand still.
  TestClient client((*server)->port());
  client.send("GET / HTTP/1.1\r\n\r\n");
  client.pause_between_reads = std::chrono::microseconds(800);
  EXPECT_EQ(client.read_response().body.size(), body.size());

  TestClient stopped((*server)->port());
  stopped.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(TestServer::eventually([&] { return (*server)->answering() == 1; }));
  EXPECT_TRUE(TestServer::eventually([&] { return (*server)->answering() == 0; }));
}

// The handler runs on the strand, so that the first wake is certain to run before the producer is
// set, and to swallow the second.
TEST(HttpServer, LosesNoWakeThatCameBeforeTheProducerWasSet) {
  auto server =
      HttpServer::open({"127.0.0.1", 0, ""}, {}, 1, [](const std::shared_ptr<Exchange>& exchange) {
        exchange->wake();
        exchange->set_producer([exchange, answered = false]() mutable {
          if (!std::exchange(answered, true)) exchange->respond({.body = "produced"});
          exchange->set_producer(nullptr);
        });
        exchange->wake();
      });
  ASSERT_TRUE(server);
  EXPECT_EQ(TestClient((*server)->port(), 5.0).get("/").body, "produced");
}

TEST(HttpServer, StopsWhileClientsConnect) {
  for (int round = 0; round < 200; ++round) {
    auto server = HttpServer::open(
        {"127.0.0.1", 0, ""}, {}, 1, [](const auto& exchange) { exchange->respond({}); });
    ASSERT_TRUE(server);
    const uint16_t port = (*server)->port();
    std::atomic<bool> stopped = false;
    std::thread knocking([&] {
      while (!stopped) TestClient client(port);
    });
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 10 * round));
    std::future<void> done = std::async(std::launch::async, [&] { (*server)->stop(); });
    const bool in_time = done.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    stopped = true;
    knocking.join();
    if (!in_time) {
      ADD_FAILURE() << "stop() hangs in round " << round;
      std::quick_exit(1);
    }
  }
}

// The kernel asks a silent client whether it is still there; /proc shows the timer.
TEST(HttpServer, AsksSilentClientsWhetherTheyAreThere) {
  EchoServer server;
  TestClient client(server.port());
  EXPECT_EQ(client.get("/").status, 200);
  char port[16];
  std::snprintf(port, sizeof port, "0100007F:%04X ", server.port());
  std::ifstream table("/proc/net/tcp");
  std::string line, found;
  while (std::getline(table, line)) {
    const bool ours = line.find(port) != std::string::npos && line.find(port) < 10;
    if (ours && line.find(" 01 ") != std::string::npos) found = line;
  }
  EXPECT_NE(found.find(" 02:"), std::string::npos) << found;
}

HttpAddress unix_address(const std::filesystem::path& path) {
  return {"", 0, path.string()};
}

std::unique_ptr<HttpServer> open_quiet(const HttpAddress& address, std::string& problem) {
  auto server =
      HttpServer::open(address, {}, 1, [](const auto& exchange) { exchange->respond({}); });
  if (server) return std::move(*server);
  problem = server.error().message;
  return nullptr;
}

TEST(HttpServer, TakesOverTheSocketFileOfAServerThatDied) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("baton_" + std::to_string(getpid()) + ".sock");
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ::close(dead);  // the file stays, as after SIGKILL
  std::string problem;
  auto server = open_quiet(unix_address(path), problem);
  ASSERT_TRUE(server) << problem;

  EXPECT_FALSE(open_quiet(unix_address(path), problem)) << "one server is there already";
  EXPECT_NE(problem.find("in use"), std::string::npos) << problem;
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));

  std::ofstream(path) << "not a socket";
  EXPECT_FALSE(open_quiet(unix_address(path), problem));
  EXPECT_TRUE(std::filesystem::exists(path)) << "what is no socket is not ours to remove";
  std::filesystem::remove(path);
}

TEST(HttpServer, ListensOnIpv6Addresses) {
  std::string problem;
  const auto first = open_quiet({"::1", 0, ""}, problem);
  if (!first) GTEST_SKIP() << problem;
  const auto second = open_quiet({"[::1]", 0, ""}, problem);
  ASSERT_TRUE(second) << problem;
  EXPECT_NE(second->port(), 0);
  EXPECT_EQ((HttpAddress{"::1", 80, ""}).name(), "[::1]:80");
  EXPECT_EQ((HttpAddress{"[::1]", 80, ""}).name(), "[::1]:80");
  EXPECT_EQ((HttpAddress{"localhost", 80, ""}).name(), "localhost:80");
  EXPECT_FALSE(open_quiet({"::1", second->port(), ""}, problem));
  EXPECT_NE(problem.find("[::1]:" + std::to_string(second->port())), std::string::npos) << problem;
}

}  // namespace
}  // namespace baton
