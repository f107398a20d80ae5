#include "server/generation.h"

#include <algorithm>

namespace baton {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

EndReason end_reason_of(const ChoiceEnd& end) {
  if (end.finish_reason == "length") return EndReason::kLength;
  if (end.finish_reason == "tool_calls") return EndReason::kToolCalls;
  return EndReason::kStop;
}

}  // namespace

Generation::Generation(Service& service,
                       std::shared_ptr<Exchange> exchange,
                       GenerationPlan&& plan,
                       RequestRecord&& record)
    : service_(service),
      engine_(*service.model()->engine),
      exchange_(std::move(exchange)),
      record_(std::move(record)),
      writer_(std::move(plan.writer)),
      cache_salt_(std::move(plan.cache_salt)),
      priority_(plan.priority),
      stream_(plan.stream),
      headers_(std::move(plan.headers)) {
  const Tokenizer& tokenizer = *service.model()->tokenizer;
  for (const GenerationPlan::Choice& choice : plan.choices) {
    choices_.push_back({.id = service_.next_id(),
                        .text = ChoiceText(tokenizer, plan.text),
                        .counts_prompt = choice.counts_prompt,
                        .discard_output = choice.discard_output});
    if (choice.counts_prompt) prompt_tokens_ += static_cast<int64_t>(choice.prompt.size());
  }
  open_ = choices_.size();
}

void Generation::start(Service& service,
                       const std::shared_ptr<Exchange>& exchange,
                       GenerationPlan plan,
                       RequestRecord record) {
  std::vector<GenerationPlan::Choice> choices = std::move(plan.choices);
  plan.choices.clear();
  for (const GenerationPlan::Choice& choice : choices) {
    service.metrics().max_tokens.observe(choice.sampling.max_tokens);
    plan.choices.push_back({.prompt = choice.prompt,
                            .sampling = {},
                            .counts_prompt = choice.counts_prompt,
                            .discard_output = choice.discard_output});
  }
  service.metrics().choices.observe(static_cast<double>(choices.size()));
  const std::shared_ptr<Generation> self(
      new Generation(service, exchange, std::move(plan), std::move(record)));
  service.add(self);
  exchange->set_producer([self] { self->produce(); });
  const Status status = self->submit(std::move(choices));
  {
    const std::scoped_lock lock(self->mutex_);
    self->submitted_ = true;
    // At once: what submit() ended itself carries no reason.
    if (!status && !self->abort_) self->abort_ = status.error();
  }
  // After submit: a cancel must find the request in the engine.
  exchange->set_on_disconnect([self] { self->cancel_open(FinishReason::kAbort); });
  exchange->wake();
}

Status Generation::submit(std::vector<GenerationPlan::Choice> choices) {
  for (size_t i = 0; i < choices.size(); ++i) {
    Request request;
    request.id = choices_[i].id;
    request.prompt = std::move(choices[i].prompt);
    request.sampling = std::move(choices[i].sampling);
    request.cache_salt = cache_salt_;
    request.priority = priority_;
    request.deliver = [self = shared_from_this(), i](StreamUpdate&& update) {
      self->deliver(i, std::move(update));
    };
    if (Status status = engine_.submit(std::move(request)); !status) {
      // The ones never submitted have ended; the engine ends the others.
      for (size_t rest = i; rest < choices.size(); ++rest) {
        StreamUpdate never;
        never.finish =
            Finish{.reason = FinishReason::kAbort, .stop_token = {}, .error = {}, .usage = {}};
        deliver(rest, std::move(never));
      }
      return status;
    }
  }
  return {};
}

void Generation::deliver(size_t choice, StreamUpdate&& update) {
  bool first;
  {
    const std::scoped_lock lock(mutex_);
    first = inbox_.empty();
    inbox_.push_back({choice, std::move(update)});
  }
  if (first) exchange_->wake();
}

void Generation::abort(Error why) {
  {
    const std::scoped_lock lock(mutex_);
    if (!abort_) abort_ = std::move(why);
  }
  exchange_->wake();
}

void Generation::cancel_open(FinishReason reason) {
  for (const Choice& choice : choices_) {
    if (!choice.done) engine_.cancel(choice.id, reason);
  }
}

void Generation::produce() {
  std::optional<Error> abort;
  {
    const std::scoped_lock lock(mutex_);
    if (!submitted_) return;
    taken_.swap(inbox_);
    abort.swap(abort_);
  }
  if (abort) fail({*abort});
  if (stream_ && !started_ && !answered_) {
    started_ = true;
    exchange_->start_stream(headers_);
  }
  std::string& out = exchange_->stream_out();
  for (Delivery& delivery : taken_) take(delivery.choice, std::move(delivery.update), out);
  taken_.clear();
  if (open_ > 0) return;
  complete(out);
  service_.remove(this);
  exchange_->set_on_disconnect(nullptr);
  exchange_->set_producer(nullptr);
}

void Generation::take(size_t index, StreamUpdate&& update, std::string& out) {
  Choice& choice = choices_[index];
  if (choice.done) return;
  Piece piece;
  if (!update.prompt_logprobs.empty() && !answered_) {
    writer_->prompt_logprobs(index, std::move(update.prompt_logprobs));
  }
  if (!choice.shown_end) take_tokens(index, update, piece);
  if (update.finish) take_finish(index, *update.finish, piece);
  if (piece.end) {
    service_.metrics().empty_answers += piece.end->says_nothing ? 1 : 0;
    service_.metrics().unknown_tool_answers += piece.end->unknown_tool ? 1 : 0;
  }
  if (piece.empty() || answered_) return;
  writer_->piece(index, std::move(piece), usage(), out);
}

void Generation::take_tokens(size_t index, StreamUpdate& update, Piece& piece) {
  Choice& choice = choices_[index];
  if (update.tokens.empty()) return;
  note_tokens(choice, update.tokens.size(), Clock::now());
  if (choice.discard_output) return;
  const bool has_stop_token = update.finish && update.finish->stop_token;
  for (OutputToken& token : update.tokens) {
    if (has_stop_token && &token == &update.tokens.back()) {
      choice.text.push_stop_token(std::move(token), piece);
      return;
    }
    if (!choice.text.push(std::move(token), piece)) continue;
    choice.shown_end = true;
    if (!reason_) reason_ = end_reason_of(*piece.end);
    if (!update.finish) engine_.cancel(choice.id, FinishReason::kStop);
    return;
  }
}

void Generation::take_finish(size_t index, const Finish& finish, Piece& piece) {
  Choice& choice = choices_[index];
  choice.done = true;
  --open_;
  if (choice.counts_prompt) cached_tokens_ += finish.usage.cached_tokens;
  RequestUsage& times = record_.times.usage;
  times.queue_seconds = std::max(times.queue_seconds, finish.usage.queue_seconds);
  times.prefill_seconds = std::max(times.prefill_seconds, finish.usage.prefill_seconds);
  times.decode_seconds = std::max(times.decode_seconds, finish.usage.decode_seconds);
  if (choice.shown_end) return;
  choice.shown_end = true;
  if (finish.reason == FinishReason::kError || finish.reason == FinishReason::kAbort) {
    if (exchange_->abandoned()) return;
    fail({finish.error.value_or(
        finish.reason == FinishReason::kError
            ? internal_error("the engine failed")
            : Error{ErrorCode::kUnavailable, "the engine stopped the request"})});
    return;
  }
  choice.text.finish(finish, piece);
  if (choice.discard_output) piece.end = ChoiceEnd{.finish_reason = "length"};
  if (!reason_) reason_ = end_reason_of(*piece.end);
}

// Several choices run side by side: the gaps are those of each choice.
void Generation::note_tokens(Choice& choice, size_t count, Clock::time_point when) {
  if (record_.times.time_to_first_token < 0.0) {
    record_.times.time_to_first_token = seconds_between(record_.arrival, when);
  }
  if (choice.last_token) {
    service_.metrics().inter_token_latency.observe(
        seconds_between(*choice.last_token, when) / static_cast<double>(count),
        static_cast<int64_t>(count));
  }
  choice.last_token = when;
}

UsageSum Generation::usage() const {
  UsageSum sum{.prompt_tokens = prompt_tokens_, .cached_tokens = cached_tokens_};
  for (const Choice& choice : choices_) {
    sum.completion_tokens += choice.text.tokens();
    sum.reasoning_tokens += choice.text.reasoning_tokens();
  }
  return sum;
}

// The first failure ends the answer; what is still open in the engine is told to stop.
void Generation::fail(const ApiError& error) {
  cancel_open(FinishReason::kAbort);
  if (answered_) return;
  answered_ = true;
  const bool rejected = !started_ && record_.times.time_to_first_token < 0.0;
  const int status = http_status(error.error.code);
  if (started_) {
    std::string& out = exchange_->stream_out();
    out += "data: {\"error\":" + error_object(error) + "}\n\ndata: [DONE]\n\n";
    exchange_->end_stream(true);
  } else {
    exchange_->respond(error_response(error));
  }
  settle(rejected && status != 500 ? EndReason::kRejected : EndReason::kError, status);
}

void Generation::complete(std::string& out) {
  if (exchange_->abandoned()) {
    settle(EndReason::kAbort, 499);
    return;
  }
  if (answered_) return;
  answered_ = true;
  if (stream_) {
    writer_->end(usage(), out);
    exchange_->end_stream(false);
  } else {
    HttpResponse response;
    response.headers = headers_;
    writer_->end(usage(), response.body);
    exchange_->respond(std::move(response));
  }
  settle(reason_.value_or(EndReason::kStop), 200);
}

void Generation::settle(EndReason reason, int status) {
  if (settled_) return;
  settled_ = true;
  const UsageSum sum = usage();
  record_.reason = reason;
  record_.status = status;
  record_.times.end_to_end = seconds_between(record_.arrival, Clock::now());
  record_.times.usage.prompt_tokens = static_cast<int32_t>(sum.prompt_tokens);
  record_.times.usage.cached_tokens = static_cast<int32_t>(sum.cached_tokens);
  record_.times.usage.output_tokens = static_cast<int32_t>(sum.completion_tokens);
  service_.finished(record_);
}

}  // namespace baton
