// The whole server over loopback: HTTP behaviour, errors, disconnects, probes.
#include <gtest/gtest.h>

#include <future>
#include <set>

#include "base/log.h"
#include "server/testing/test_server.h"

namespace baton {
namespace {

using std::chrono::milliseconds;

// The requests' own lines would drown what a failing test says.
const bool kQuiet = [] {
  set_log(LogLevel::kWarning, nullptr);
  return true;
}();

TEST(Server, AnswersAChatWhole) {
  TestServer server(TestServer::plays("Hello"));
  const TestResponse response = server.post("/v1/chat/completions", chat_body());
  ASSERT_EQ(response.status, 200) << response.body;
  const Json answer = response.json();
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "tiny");
  EXPECT_EQ(answer["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 5);
  EXPECT_EQ(answer["usage"]["total_tokens"], 11);
  EXPECT_EQ(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
}

TEST(Server, KeepsAConnectionOpenForRequestsOfBothKinds) {
  TestServer server(TestServer::plays("Hello"));
  TestClient client(server.port());
  Json streamed = chat_body();
  streamed["stream"] = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.post("/v1/chat/completions", chat_body()).status, 200);
    const TestResponse events = client.post("/v1/chat/completions", streamed);
    EXPECT_EQ(events.status, 200);
    EXPECT_TRUE(events.body.ends_with("data: [DONE]\n\n"));
    EXPECT_EQ(client.get("/health").status, 200);
  }
}

TEST(Server, AnswersRequestsThatWereSentAhead) {
  TestServer server(TestServer::plays("Hello"));
  TestClient client(server.port());
  const std::string body = chat_body().dump();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.send_request("POST", "/v1/chat/completions", body));
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.read_response().status, 200);
}

TEST(Server, SurvivesMalformedHttp) {
  TestServer server(TestServer::plays("Hello"));
  for (const std::string bytes :
       {"nonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "\1\2\3\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n"}) {
    TestClient client(server.port());
    client.send(bytes);
    EXPECT_EQ(client.read_response().status, 400) << bytes;
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Server, RefusesWhatIsTooLargeWhileItIsRead) {
  HttpLimits limits;
  limits.max_body_bytes = 1000;
  TestServer server(TestServer::plays("Hello"), TestServer::default_options(), limits);
  TestClient declared(server.port());
  declared.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 2000000000\r\n\r\n{");
  EXPECT_EQ(declared.read_response().status, 413);

  TestClient chunked(server.port());
  chunked.send("POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 100; ++i) {
    if (!chunked.send("100\r\n" + std::string(256, ' ') + "\r\n")) break;
  }
  EXPECT_EQ(chunked.read_response().status, 413);

  TestClient head(server.port());
  head.send("GET /health HTTP/1.1\r\nX: " + std::string(100000, 'a') + "\r\n\r\n");
  EXPECT_EQ(head.read_response().status, 431);
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Server, GivesUpOnARequestThatDoesNotArrive) {
  HttpLimits limits;
  limits.header_seconds = 0.05;
  limits.body_stall_seconds = 0.05;
  TestServer server(TestServer::plays("Hello"), TestServer::default_options(), limits);
  TestClient head(server.port());
  head.send("GET /health HT");
  EXPECT_EQ(head.read_response().status, 408);
  TestClient body(server.port());
  body.send("POST /v1/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(body.read_response().status, 408);
}

TEST(Server, TellsCurlToGoOnWithALargeBody) {
  TestServer server(TestServer::plays("Hello"));
  TestClient client(server.port());
  const std::string body = chat_body().dump();
  client.send("POST /v1/chat/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  ASSERT_TRUE(client.read_until("100 Continue\r\n\r\n"));
  client.send(body);
  EXPECT_TRUE(client.read_until("chat.completion"));
}

TEST(Server, RefusesMalformedBodiesWithoutQuotingThem) {
  TestServer server(TestServer::plays("Hello"));
  const std::string deep =
      "{\"model\":\"tiny\",\"x\":" + std::string(100000, '[') + std::string(100000, ']') + "}";
  std::string deep_objects;
  for (int i = 0; i < 20000; ++i) deep_objects += "{\"a\":";
  for (const std::string& body : {std::string("{:"),
                                  std::string(),
                                  std::string("[]"),
                                  std::string("null"),
                                  std::string("{\"a\":1}{\"b\":2}"),
                                  std::string("\x1f\x8b\x08gzip"),
                                  deep,
                                  deep_objects,
                                  std::string("{\"prompt\":\"ZQX-CANARY"),
                                  std::string("{\"prompt\":\"ZQX-CANARY \xff\"}"),
                                  std::string("{\"temperature\": NaN}"),
                                  std::string(100000, ' ')}) {
    const TestResponse response =
        TestClient(server.port()).request("POST", "/v1/completions", body);
    EXPECT_EQ(response.status, 400) << body.substr(0, 50);
    EXPECT_TRUE(response.json().contains("error")) << response.body;
    EXPECT_EQ(response.body.find("CANARY"), std::string::npos) << response.body;
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

TEST(Server, TakesAFlatBodyOfMegabytes) {
  TestServer server(TestServer::plays("Hello"));
  Json body = chat_body();
  body["metadata"] = {{"blob", std::string(5 << 20, 'x')}};
  EXPECT_EQ(server.post("/v1/chat/completions", body).status, 200);
}

TEST(Server, RefusesATextThatCannotFitWithoutTokenisingIt) {
  TestServer server(TestServer::plays("Hello"));
  const TestResponse response =
      server.post("/v1/chat/completions", chat_body(std::string(20 << 20, 'x')));
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("512 tokens"), std::string::npos) << response.body.substr(0, 300);
}

TEST(Server, NamesTheRightPathAndMethod) {
  TestServer server(TestServer::plays("Hello"));
  for (const char* path : {"/v1/chat/completions/",
                           "/chat/completions",
                           "/v1/v1/chat/completions",
                           "/v1/chat/completions?x=1"}) {
    EXPECT_EQ(server.post(path, chat_body()).status, 200) << path;
  }
  const TestResponse unknown = server.post("/v1/chat/completion", chat_body());
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("/v1/chat/completions"), std::string::npos) << unknown.body;
  const TestResponse method = server.get("/v1/chat/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST");
  EXPECT_NE(method.body.find("POST"), std::string::npos);
  EXPECT_EQ(server.post("/health", Json::object()).status, 405);
}

TEST(Server, NamesTheModelsItServes) {
  TestServer server(TestServer::plays("Hello"));
  Json body = chat_body();
  body["model"] = "gpt-4";
  const TestResponse response = server.post("/v1/chat/completions", body);
  EXPECT_EQ(response.status, 404);
  EXPECT_NE(response.body.find("'tiny'"), std::string::npos) << response.body;
  EXPECT_EQ(response.json()["error"]["param"], "model");
  body["model"] = "other-name";
  EXPECT_EQ(server.post("/v1/chat/completions", body).status, 200);
  body.erase("model");
  EXPECT_EQ(server.post("/v1/chat/completions", body).status, 200);
  EXPECT_EQ(server.get("/v1/models").json()["data"][0]["id"], "tiny");
  EXPECT_EQ(server.get("/v1/models/tiny").json()["max_model_len"], 512);
  EXPECT_EQ(server.get("/v1/models/t%69ny/").json()["id"], "tiny");
  EXPECT_EQ(server.get("/v1/models/gpt-4").status, 404);
}

TEST(Server, EchoesARequestIdThatIsSane) {
  TestServer server(TestServer::plays("Hello"));
  const std::string body = chat_body().dump();
  const TestResponse kept =
      TestClient(server.port())
          .request("POST", "/v1/chat/completions", body, "X-Request-Id: my-id.1\r\n");
  EXPECT_EQ(kept.headers.at("x-request-id"), "my-id.1");
  EXPECT_EQ(kept.json()["id"], "chatcmpl-my-id.1");
  const TestResponse made =
      TestClient(server.port())
          .request("POST", "/v1/chat/completions", body, "X-Request-Id: no spaces \"allowed\"\r\n");
  EXPECT_GE(made.headers.at("x-request-id").size(), 16U);
  std::set<std::string> ids;
  for (int i = 0; i < 10; ++i) ids.insert(server.get("/health").headers.at("x-request-id"));
  EXPECT_EQ(ids.size(), 10U);
}

TEST(Server, AsksForTheKeyWhereThereIsOne) {
  ServiceOptions options = TestServer::default_options();
  options.api_key = "secret";
  TestServer server(TestServer::plays("Hello"), options);
  const std::string body = chat_body().dump();
  const auto status = [&](const std::string& header) {
    return TestClient(server.port()).request("POST", "/v1/chat/completions", body, header).status;
  };
  EXPECT_EQ(status(""), 401);
  EXPECT_EQ(status("Authorization: Bearer wrong!\r\n"), 401);
  EXPECT_EQ(status("Authorization: Bearer secret2\r\n"), 401);
  EXPECT_EQ(status("Authorization: Bearer secret\r\n"), 200);
  EXPECT_EQ(server.get("/v1/models").status, 401);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/metrics").status, 200);
}

TEST(Server, RefusesByTheHeadBeforeABodyIsSent) {
  ServiceOptions options = TestServer::default_options();
  options.api_key = "secret";
  TestServer server(TestServer::plays("Hello"), options);
  const std::string rest = " HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 60000000\r\n\r\n";
  for (const auto& [line, status] : {std::pair<std::string, int>{"POST /v1/chat/completions", 401},
                                     {"POST /v1/chat/complete", 404},
                                     {"POST /v1/models/tiny", 405},
                                     {"PUT /health", 405}}) {
    TestClient client(server.port());
    client.send(line + rest);
    EXPECT_EQ(client.read_response().status, status) << line;
  }
  EXPECT_EQ(server.service().metrics().http_requests, 4);
}

TEST(Server, DoesNoWorkForAClientThatLeftWhileItWaited) {
  ServiceOptions options = TestServer::default_options();
  options.worker_threads = 1;
  std::atomic<int> submitted = 0;
  TestServer server(
      [&](const Request&) {
        ++submitted;
        return FakeEngine::Play{.tokens = play("x")};
      },
      options);
  std::promise<void> taken, busy;
  server.service().workers().post([&] {
    taken.set_value();
    busy.get_future().wait();
  });
  taken.get_future().wait();
  TestClient client(server.port());
  client.send_request("POST", "/v1/chat/completions", chat_body().dump());
  ASSERT_TRUE(TestServer::eventually([&] { return server.service().workers().queued() == 1; }));
  client.close();
  ASSERT_TRUE(TestServer::eventually([&] { return server.http().answering() == 0; }));
  busy.set_value();
  const auto& finished = server.service().metrics().finished;
  EXPECT_TRUE(TestServer::eventually(
      [&] { return finished[static_cast<size_t>(EndReason::kAbort)] == 1; }));
  EXPECT_EQ(submitted, 0);
}

// AP-01: a client that leaves ends its generation at once, whatever it was waiting for.
class ClientLeaves : public testing::TestWithParam<std::tuple<bool, bool, int>> {};

TEST_P(ClientLeaves, AndItsRequestEnds) {
  const auto [stream, reset, prefill_ms] = GetParam();
  TestServer server([prefill = milliseconds(prefill_ms)](const Request&) {
    FakeEngine::Play play;
    play.tokens = {'a', 'b'};
    play.step = milliseconds(1);
    play.prefill = prefill;
    play.forever = true;
    return play;
  });
  Json body = chat_body();
  body["stream"] = stream;
  body["n"] = 3;
  body["max_tokens"] = 400;
  TestClient client(server.port());
  client.send_request("POST", "/v1/chat/completions", body.dump());
  ASSERT_TRUE(TestServer::eventually([&] { return !server.engine().idle(); }));
  if (stream && prefill_ms == 0) {
    ASSERT_TRUE(client.read_until("content"));
  }
  if (reset) {
    client.reset();
  } else {
    client.close();
  }
  EXPECT_TRUE(TestServer::eventually([&] { return server.engine().idle(); }, 1.0));
  EXPECT_TRUE(TestServer::eventually([&] { return server.service().active() == 0; }, 1.0));
  if (prefill_ms > 0) {
    EXPECT_EQ(server.service().metrics().finished[static_cast<size_t>(EndReason::kAbort)], 1);
  }
}

INSTANTIATE_TEST_SUITE_P(AllWays,
                         ClientLeaves,
                         testing::Combine(testing::Bool(),
                                          testing::Bool(),
                                          testing::Values(0, 100000)));

TEST(Server, FreesARequestWhoseClientStoppedReadingAndLeft) {
  TestServer server(TestServer::plays_forever("x", milliseconds(0)));
  Json body = chat_body();
  body.update({{"stream", true}, {"n", 40}, {"logprobs", true}, {"top_logprobs", 20}});
  TestClient client(server.port());
  client.send_request("POST", "/v1/chat/completions", body.dump());
  // The engine is done long before the client could have taken tens of megabytes.
  ASSERT_TRUE(TestServer::eventually([&] { return server.service().active() == 1; }));
  ASSERT_TRUE(TestServer::eventually([&] { return server.engine().idle(); }));
  EXPECT_EQ(server.service().active(), 1);
  client.close();
  EXPECT_TRUE(TestServer::eventually([&] { return server.service().active() == 0; }));
  EXPECT_EQ(server.service().metrics().finished[static_cast<size_t>(EndReason::kAbort)], 1);
}

TEST(Server, StreamsGoOnWhileAHugeBodyIsParsed) {
  ServiceOptions options = TestServer::default_options();
  options.worker_threads = 1;
  TestServer server(TestServer::plays_forever("x", milliseconds(1)), options);
  Json body = chat_body();
  body["stream"] = true;
  body["max_tokens"] = 500;
  TestClient streaming(server.port());
  streaming.send_request("POST", "/v1/chat/completions", body.dump());
  ASSERT_TRUE(streaming.read_until("content"));
  // Two workers' worth of work in front of one worker.
  std::vector<std::unique_ptr<TestClient>> heavy;
  const std::string huge = chat_body(std::string(8 << 20, 'x')).dump();
  for (int i = 0; i < 3; ++i) {
    heavy.push_back(std::make_unique<TestClient>(server.port()));
    heavy.back()->send_request("POST", "/v1/chat/completions", huge);
  }
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(streaming.read_response().status, 200);
  for (auto& client : heavy) EXPECT_EQ(client->read_response().status, 400);
}

TEST(Server, PingsAStreamThatSaysNothing) {
  HttpLimits limits;
  limits.ping_seconds = 0.02;
  TestServer server(
      [](const Request&) {
        FakeEngine::Play play;
        play.tokens = {'a'};
        play.prefill = milliseconds(150);
        return play;
      },
      TestServer::default_options(),
      limits);
  Json body = chat_body();
  body["stream"] = true;
  TestClient client(server.port());
  client.send_request("POST", "/v1/chat/completions", body.dump());
  ASSERT_TRUE(client.read_until("200 OK")) << "headers come before the first token";
  ASSERT_TRUE(client.read_until(": ping\n\n"));
  EXPECT_EQ(client.received().find("data:"), std::string::npos);
  const TestResponse response = client.read_response();
  EXPECT_EQ(response.events()[0]["choices"][0]["delta"]["content"], "a");
}

TEST(Server, RefusesAtOnceWhenTheQueueIsFull) {
  ServiceOptions options = TestServer::default_options();
  options.max_queued_requests = 10;
  TestServer server(TestServer::plays("Hello"), options);
  server.engine().waiting = 10;
  const TestResponse early = server.post("/v1/chat/completions", chat_body());
  EXPECT_EQ(early.status, 429);
  EXPECT_TRUE(early.headers.contains("retry-after"));
  server.engine().waiting = 0;
  server.engine().refuse_all = true;
  Json body = chat_body();
  for (const bool stream : {false, true}) {
    body["stream"] = stream;
    const TestResponse late = server.post("/v1/chat/completions", body);
    EXPECT_EQ(late.status, 429) << "a validation error is never a stream";
    EXPECT_TRUE(late.headers.contains("retry-after"));
  }
  server.engine().refuse_all = false;
  EXPECT_EQ(server.post("/v1/chat/completions", chat_body()).status, 200);
}

TEST(Server, IsLiveButNotReadyWhileLoading) {
  TestServer server(TestServer::plays("Hello"), TestServer::default_options(), {}, false);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/ready").status, 503);
  EXPECT_EQ(server.get("/v1/models").json()["data"][0]["status"], "loading");
  EXPECT_EQ(server.get("/metrics").status, 200);
  const TestResponse refused = server.post("/v1/chat/completions", chat_body());
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  server.set_ready();
  EXPECT_EQ(server.get("/ready").status, 200);
  EXPECT_EQ(server.post("/v1/chat/completions", chat_body()).status, 200);
}

TEST(Server, RefusesNewRequestsWhileDrainingAndFinishesOldOnes) {
  TestServer server(TestServer::plays_forever("x", milliseconds(2)));
  Json body = chat_body();
  body["stream"] = true;
  body["max_tokens"] = 50;
  TestClient running(server.port());
  running.send_request("POST", "/v1/chat/completions", body.dump());
  ASSERT_TRUE(running.read_until("content"));
  server.service().begin_drain();
  EXPECT_EQ(server.get("/ready").status, 503);
  const TestResponse refused = server.post("/v1/chat/completions", chat_body());
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.closed);
  const TestResponse finished = running.read_response();
  EXPECT_EQ(finished.events().back()["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(TestServer::eventually([&] { return server.http().answering() == 0; }));
}

TEST(Server, EndsOpenStreamsWithAnErrorWhenTheDrainTimeIsOver) {
  TestServer server(TestServer::plays_forever("x", milliseconds(5)));
  Json body = chat_body();
  body["stream"] = true;
  TestClient running(server.port());
  running.send_request("POST", "/v1/chat/completions", body.dump());
  ASSERT_TRUE(running.read_until("content"));
  server.service().abort_all("the server is shutting down");
  const TestResponse ended = running.read_response();
  EXPECT_EQ(ended.events().back()["error"]["code"], "service_unavailable");
  EXPECT_TRUE(ended.body.ends_with("data: [DONE]\n\n"));
  EXPECT_TRUE(running.at_end());
}

TEST(Server, EndsWhatAWorkerBeginsAfterTheDrainTime) {
  ServiceOptions options = TestServer::default_options();
  options.worker_threads = 1;
  TestServer server(TestServer::plays_forever("x", milliseconds(5)), options);
  std::promise<void> busy;
  server.service().workers().post([&] { busy.get_future().wait(); });
  TestClient client(server.port());
  client.send_request("POST", "/v1/chat/completions", chat_body().dump());
  ASSERT_TRUE(TestServer::eventually([&] { return server.service().workers().queued() == 1; }));
  server.service().abort_all("the server is shutting down");
  busy.set_value();
  EXPECT_EQ(client.read_response().status, 503);
  EXPECT_TRUE(TestServer::eventually([&] { return server.engine().idle(); }));
}

TEST(Server, TellsTheTruthAboutItsHealth) {
  TestServer server(TestServer::plays("Hello"));
  server.engine().stalled_seconds = 60.0;  // a long step, but below the limit
  EXPECT_EQ(server.get("/health").status, 200);
  server.engine().stalled_seconds = 121.0;
  EXPECT_EQ(server.get("/health").status, 503);
  EXPECT_EQ(server.get("/health").json()["status"], "stalled");
  server.engine().stalled_seconds = 0.0;
  server.engine().is_alive = false;
  EXPECT_EQ(server.get("/health").json()["status"], "dead");
  EXPECT_EQ(server.get("/ready").status, 503);
  EXPECT_EQ(server.post("/v1/chat/completions", chat_body()).status, 503);
}

TEST(Server, RefusesMoreConnectionsThanItMayHave) {
  HttpLimits limits;
  limits.max_connections = 2;
  TestServer server(TestServer::plays("Hello"), TestServer::default_options(), limits);
  TestClient first(server.port()), second(server.port());
  EXPECT_EQ(first.get("/health").status, 200);
  EXPECT_EQ(second.get("/health").status, 200);
  TestClient third(server.port());
  EXPECT_EQ(third.get("/health").status, 503);
  first.close();
  EXPECT_TRUE(TestServer::eventually(
      [&] { return TestClient(server.port()).get("/health").status == 200; }));
}

TEST(Server, FinishesManyStreamsThatAreReadInReverse) {
  TestServer server([](const Request& request) {
    FakeEngine::Play play;
    play.tokens.assign(static_cast<size_t>(request.sampling.max_tokens), 'x');
    return play;
  });
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 9; ++i) {
      Json body = chat_body();
      body["stream"] = true;
      body["max_tokens"] = 10 + 37 * i;
      clients.push_back(std::make_unique<TestClient>(server.port()));
      clients.back()->send_request("POST", "/v1/chat/completions", body.dump());
    }
    for (int i = 8; i >= 0; --i) {
      const TestResponse response = clients[static_cast<size_t>(i)]->read_response();
      std::string text;
      for (const Json& event : response.events()) {
        text += event["choices"][0]["delta"].value("content", "");
      }
      EXPECT_EQ(text.size(), static_cast<size_t>(10 + 37 * i));
    }
  }
}

// OB-08, OB-09, OB-10: what the log shows.
TEST(Server, LogsOneLineForEachApiRequestAndNoContent) {
  std::mutex mutex;
  std::vector<std::string> lines;
  set_log(LogLevel::kInfo, [&](LogLevel, std::string_view text) {
    const std::scoped_lock lock(mutex);
    lines.emplace_back(text);
  });
  {
    TestServer server(TestServer::plays("ZQX-CANARY-17 out"));
    for (int i = 0; i < 20; ++i) {
      server.get("/health");
      server.get("/ready");
      server.get("/metrics");
      server.get("/v1/models");
    }
    Json body = chat_body("ZQX-CANARY-17");
    body["stop"] = "ZQX-CANARY-17 stop";
    server.post("/v1/chat/completions", body);
    body["max_tokens"] = 2;
    server.post("/v1/chat/completions", body);
    body["max_tokens"] = "ZQX-CANARY-17";
    EXPECT_EQ(server.post("/v1/chat/completions", body).status, 400);
    body = chat_body("ZQX-CANARY-17" + std::string(600, 'x'));
    EXPECT_EQ(server.post("/v1/chat/completions", body).status, 400);
  }
  set_log(LogLevel::kWarning, nullptr);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_NE(lines[0].find("reason=stop prompt=17"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("reason=length"), std::string::npos) << lines[1];
  EXPECT_NE(lines[2].find("status=400 reason=rejected"), std::string::npos) << lines[2];
  for (const std::string& line : lines) {
    EXPECT_EQ(line.find("CANARY"), std::string::npos) << line;
    EXPECT_NE(line.find(" id="), std::string::npos) << line;
    EXPECT_NE(line.find("total_ms="), std::string::npos) << line;
  }
}

// A busy server reads billions of prompt tokens in days.
TEST(Histogram, AddsUpMoreThanABillionTokens) {
  Histogram histogram({1.0});
  histogram.observe(6e9);
  histogram.observe(6e9);
  histogram.observe(0.25, 2);
  std::string page;
  histogram.append(page, "tokens", "x=\"y\"");
  EXPECT_NE(page.find("tokens_sum{x=\"y\"} 12000000000.5\n"), std::string::npos) << page;
}

// OB-01, OB-02: numbers that are true.
TEST(Server, CountsEveryRequestByHowItEnded) {
  TestServer server([](const Request& request) {
    FakeEngine::Play play;
    play.tokens = {'a', 'b', 'c', 'd', 'e'};
    play.forever = request.sampling.max_tokens > 100;
    play.step = milliseconds(play.forever ? 1 : 0);
    return play;
  });
  Json body = chat_body();
  body["max_tokens"] = 50;
  for (int i = 0; i < 4; ++i) server.post("/v1/chat/completions", body);
  body["max_tokens"] = 3;
  for (int i = 0; i < 3; ++i) server.post("/v1/chat/completions", body);
  body["max_tokens"] = 450;
  for (int i = 0; i < 2; ++i) {
    TestClient client(server.port());
    client.send_request("POST", "/v1/chat/completions", body.dump());
    ASSERT_TRUE(TestServer::eventually([&] { return !server.engine().idle(); }));
    client.close();
    ASSERT_TRUE(TestServer::eventually([&] { return server.service().active() == 0; }));
  }
  body["max_tokens"] = -1;
  server.post("/v1/chat/completions", body);
  const std::string labels = "{model_name=\"tiny\",engine=\"0\"";
  // A refused request is counted when its answer is on the way: the client may be quicker.
  std::string page;
  ASSERT_TRUE(TestServer::eventually([&] {
    page = server.get("/metrics").body;
    return page.find(labels + ",reason=\"rejected\"} 1\n") != std::string::npos;
  }));
  for (const auto& [reason, count] : {std::pair<std::string, int>{"stop", 4},
                                      {"length", 3},
                                      {"abort", 2},
                                      {"error", 0},
                                      {"rejected", 1}}) {
    const std::string line = "baton:requests_finished_total" + labels + ",reason=\"" + reason +
                             "\"} " + std::to_string(count) + "\n";
    EXPECT_NE(page.find(line), std::string::npos) << line << page.substr(0, 3000);
  }
  EXPECT_NE(page.find("vllm:e2e_request_latency_seconds_count" + labels + "} 9\n"),
            std::string::npos);
  // Four of five tokens, three of three: 4 * 4 + 3 * 2 gaps at least; those who left, more.
  EXPECT_GE(server.service().metrics().inter_token_latency.count(), 22);
  EXPECT_NE(page.find("vllm:kv_cache_usage_perc" + labels + "} 0\n"), std::string::npos);
}

}  // namespace
}  // namespace baton
