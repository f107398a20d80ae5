// Browsers: pages of other origins, over the whole server.
#include "server/cors.h"

#include <gtest/gtest.h>

#include "server/testing/test_server.h"

namespace baton {
namespace {

constexpr const char* kPreflight =
    "Origin: https://chat.test\r\nAccess-Control-Request-Method: POST\r\n"
    "Access-Control-Request-Headers: authorization, content-type\r\n";
constexpr const char* kFromPage = "Origin: https://chat.test\r\n";
constexpr const char* kChat = "/v1/chat/completions";

ServiceOptions allowing(std::vector<std::string> origins) {
  ServiceOptions options = TestServer::default_options();
  options.allowed_origins = std::move(origins);
  return options;
}

std::string header(const TestResponse& response, const std::string& name) {
  const auto found = response.headers.find(name);
  return found == response.headers.end() ? "none" : found->second;
}

constexpr const char* kAllowOrigin = "access-control-allow-origin";

TEST(Cors, LetsEveryPageAskFirstEvenWhereAKeyIsNeeded) {
  ServiceOptions options = TestServer::default_options();
  options.api_key = "secret";
  TestServer server(TestServer::plays("Hello"), options);
  const TestResponse leave = TestClient(server.port()).request("OPTIONS", kChat, {}, kPreflight);
  EXPECT_EQ(leave.status, 200);
  EXPECT_EQ(header(leave, kAllowOrigin), "*");
  EXPECT_EQ(header(leave, "access-control-allow-methods"), "GET, HEAD, POST");
  EXPECT_EQ(header(leave, "access-control-allow-headers"), "authorization, content-type");
  const TestResponse no_key =
      TestClient(server.port()).request("POST", kChat, chat_body().dump(), kFromPage);
  EXPECT_EQ(no_key.status, 401);
  EXPECT_EQ(header(no_key, kAllowOrigin), "*") << "the page must be able to read why";
}

TEST(Cors, LetsPagesReadAnswersStreamsAndErrors) {
  HttpLimits limits;
  limits.max_body_bytes = 1000;
  TestServer server(TestServer::plays("Hello"), TestServer::default_options(), limits);
  Json streamed = chat_body();
  streamed["stream"] = true;
  TestClient client(server.port());
  for (const auto& [body, status] : {std::pair{chat_body().dump(), 200},
                                     {streamed.dump(), 200},
                                     {std::string("nonsense"), 400},
                                     {std::string(2000, 'x'), 413}}) {
    const TestResponse response = client.request("POST", kChat, body, kFromPage);
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(header(response, kAllowOrigin), "*");
    EXPECT_EQ(header(response, "access-control-expose-headers"), "*");
  }
  EXPECT_EQ(header(server.get("/health"), kAllowOrigin), "none") << "no page asked";
}

TEST(Cors, NamesOneOriginAmongSeveralAndRefusesOthers) {
  TestServer server(TestServer::plays("Hello"), allowing({"http://a.test", "https://chat.test"}));
  TestClient client(server.port());
  const TestResponse good = client.request("GET", "/v1/models", {}, kFromPage);
  EXPECT_EQ(header(good, kAllowOrigin), "https://chat.test");
  EXPECT_EQ(header(good, "vary"), "Origin");
  EXPECT_EQ(client.request("OPTIONS", kChat, {}, kPreflight).status, 200);
  const TestResponse other =
      client.request("GET", "/v1/models", {}, "Origin: https://evil.test\r\n");
  EXPECT_EQ(other.status, 200) << "only the browser keeps it from the page";
  EXPECT_EQ(header(other, kAllowOrigin), "none");
  EXPECT_EQ(header(other, "vary"), "Origin");
  const TestResponse refused = client.request(
      "OPTIONS", kChat, {}, "Origin: https://evil.test\r\nAccess-Control-Request-Method: POST\r\n");
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(header(refused, kAllowOrigin), "none");
}

TEST(Cors, LeavesOptionsAloneThatNoBrowserSent) {
  TestServer server(TestServer::plays("Hello"));
  EXPECT_EQ(TestClient(server.port()).request("OPTIONS", kChat).status, 405);
  TestServer closed(TestServer::plays("Hello"), allowing({}));
  TestClient client(closed.port());
  EXPECT_EQ(client.request("OPTIONS", kChat, {}, kPreflight).status, 403);
  EXPECT_EQ(header(client.request("GET", "/health", {}, kFromPage), kAllowOrigin), "none");
}

TEST(Cors, ReadsOriginsWithCommasAndAsVllmWritesThem) {
  using Origins = std::vector<std::string>;
  EXPECT_EQ(*parse_origins("*"), Origins{"*"});
  EXPECT_EQ(*parse_origins(R"(["*"])"), Origins{"*"});
  EXPECT_EQ(*parse_origins(""), Origins{});
  EXPECT_EQ(*parse_origins("[]"), Origins{});
  EXPECT_EQ(*parse_origins("http://a:1, https://b"), (Origins{"http://a:1", "https://b"}));
  for (const char* wrong : {"a.test", "https://a/", "https://", "[1]", "[", "https://a,,", "**"}) {
    EXPECT_FALSE(parse_origins(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace baton
