#include "scheduler/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace baton {
namespace {

Request good_request(size_t prompt_tokens = 3) {
  Request request;
  request.prompt.assign(prompt_tokens, 1);
  request.deliver = [](StreamUpdate&&) {};
  return request;
}

std::string refusal(const Request& request) {
  const Status status = check_request(request, {.max_model_len = 512, .vocab_size = 100});
  if (status) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  return status.error().message;
}

TEST(Admission, TakesPromptsThatLeaveRoomForOneToken) {
  EXPECT_EQ(refusal(good_request(1)), "");
  EXPECT_EQ(refusal(good_request(511)), "");
  EXPECT_THAT(refusal(good_request(512)), testing::HasSubstr("512 tokens"));
  EXPECT_THAT(refusal(good_request(5000)), testing::HasSubstr("5000 tokens leave no room"));
  EXPECT_THAT(refusal(good_request(0)), testing::HasSubstr("at least one token"));
}

TEST(Admission, ChecksTokenIds) {
  for (const int32_t token : {-1, 100, std::numeric_limits<int32_t>::max()}) {
    Request request = good_request();
    request.prompt[1] = token;
    EXPECT_THAT(refusal(request), testing::HasSubstr("position 1"));
    request = good_request();
    request.sampling.stop_token_ids = {token};
    EXPECT_THAT(refusal(request), testing::HasSubstr("stop_token_ids"));
    request = good_request();
    request.sampling.logit_bias = {{token, 1.0F}};
    EXPECT_THAT(refusal(request), testing::HasSubstr("logit_bias"));
  }
}

TEST(Admission, RefusesNumbersThatMeanNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const auto with = [](auto set) {
    Request request = good_request();
    set(request.sampling);
    return refusal(request);
  };
  for (const float t : {nan, -1.0F, inf}) {
    EXPECT_NE(with([&](SamplingParams& s) { s.temperature = t; }), "") << t;
  }
  for (const float t : {0.0F, -0.0F, 1e-30F, 1e9F}) {
    EXPECT_EQ(with([&](SamplingParams& s) { s.temperature = t; }), "") << t;
  }
  EXPECT_NE(with([&](SamplingParams& s) { s.top_p = nan; }), "");
  EXPECT_NE(with([&](SamplingParams& s) { s.top_p = 0.0F; }), "");
  EXPECT_NE(with([&](SamplingParams& s) { s.min_p = 1.5F; }), "");
  EXPECT_NE(with([&](SamplingParams& s) { s.repetition_penalty = 0.0F; }), "");
  EXPECT_NE(with([&](SamplingParams& s) { s.presence_penalty = nan; }), "");
  EXPECT_NE(with([&](SamplingParams& s) { s.frequency_penalty = 3.0F; }), "");
  EXPECT_NE(with([&](SamplingParams& s) { s.max_tokens = -1; }), "");
  EXPECT_NE(with([&](SamplingParams& s) { s.min_tokens = s.max_tokens + 1; }), "");
  EXPECT_EQ(with([&](SamplingParams& s) { s.max_tokens = std::numeric_limits<int32_t>::max(); }),
            "");
}

}  // namespace
}  // namespace baton
