// One API request being answered: its sequences in the engine, their text, and the writer that
// gives the answer its form. Deliveries come from the engine thread into a small inbox; all
// else happens on the strand of the connection. Keeps itself alive through the engine's
// callbacks until every sequence has ended.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/choice_text.h"
#include "server/http/exchange.h"
#include "server/service.h"

namespace baton {

struct UsageSum {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;  // of the completion, its tags too
};

// Gives an answer its form. Streamed: frames are appended to the stream as pieces come. Whole:
// pieces are collected, and end() makes the body. Strand only.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  // Once per prompt that asked for them, before the pieces of its choices.
  virtual void prompt_logprobs(size_t choice, std::vector<OutputToken> tokens) = 0;
  virtual void piece(size_t choice, Piece&& piece, const UsageSum& so_far, std::string& out) = 0;
  // Streamed: last frames, [DONE]. Whole: the body.
  virtual void end(const UsageSum& usage, std::string& out) = 0;
};

struct GenerationPlan {
  struct Choice {
    std::vector<int32_t> prompt;
    SamplingParams sampling;
    bool counts_prompt = true;    // the first choice of each prompt
    bool discard_output = false;  // only the prompt was asked for (max_tokens 0)
  };
  std::vector<Choice> choices;
  ChoiceTextOptions text;
  std::string cache_salt;
  int32_t priority = 0;
  bool stream = false;
  HttpHeaders headers;  // of the answer: warnings
  std::unique_ptr<AnswerWriter> writer;
};

class Generation : public std::enable_shared_from_this<Generation> {
 public:
  // Submits everything, or answers with the error that came. Any thread.
  static void start(Service& service,
                    const std::shared_ptr<Exchange>& exchange,
                    GenerationPlan plan,
                    RequestRecord record);

  // Ends it with an error, at the client too. Any thread, at any time.
  void abort(Error why);

 private:
  using Clock = std::chrono::steady_clock;
  struct Choice {
    RequestId id = 0;
    ChoiceText text;
    bool counts_prompt = true;
    bool discard_output = false;
    bool shown_end = false;  // the client has its finish_reason
    bool done = false;       // the engine has let go of it
    std::optional<Clock::time_point> last_token = std::nullopt;
  };
  struct Delivery {
    size_t choice;
    StreamUpdate update;
  };

  Generation(Service& service,
             std::shared_ptr<Exchange> exchange,
             GenerationPlan&& plan,
             RequestRecord&& record);

  Status submit(std::vector<GenerationPlan::Choice> choices);
  void deliver(size_t choice, StreamUpdate&& update);  // engine thread
  void produce();
  void take(size_t index, StreamUpdate&& update, std::string& out);
  void take_tokens(size_t index, StreamUpdate& update, Piece& piece);
  void take_finish(size_t index, const Finish& finish, Piece& piece);
  void note_tokens(Choice& choice, size_t count, Clock::time_point when);
  void fail(const ApiError& error);
  void cancel_open(FinishReason reason);
  void complete(std::string& out);
  void settle(EndReason reason, int status);
  UsageSum usage() const;

  Service& service_;
  Engine& engine_;
  const std::shared_ptr<Exchange> exchange_;
  RequestRecord record_;
  std::vector<Choice> choices_;
  std::unique_ptr<AnswerWriter> writer_;
  const std::string cache_salt_;
  const int32_t priority_;
  const bool stream_;
  const HttpHeaders headers_;

  std::mutex mutex_;
  std::vector<Delivery> inbox_;
  std::vector<Delivery> taken_;  // strand: swapped with inbox_, keeps its room
  std::optional<Error> abort_;   // under mutex_
  bool submitted_ = false;       // under mutex_: nothing is shown before all are accepted

  // Strand only.
  bool started_ = false;
  bool answered_ = false;  // nothing more goes to the client
  bool settled_ = false;   // counted and logged
  size_t open_ = 0;
  int64_t prompt_tokens_ = 0;
  int64_t cached_tokens_ = 0;
  std::optional<EndReason> reason_;
};

}  // namespace baton
