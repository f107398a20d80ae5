// One request against every order in which submitting, delivering, aborting and the strand's runs
// can come: nothing here has a thread of its own.
#include "server/generation.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>

#include "base/log.h"
#include "text/tiny_tokenizer.h"

namespace baton {
namespace {

// The strand as a list of tasks: run at once, or not before run() is called.
class ManualExchange final : public Exchange {
 public:
  explicit ManualExchange(bool at_once) : at_once_(at_once) {}

  const HttpRequest& request() const override { return request_; }
  std::string take_body() override { return {}; }
  bool abandoned() const override { return false; }
  void respond(HttpResponse response) override {
    ++answers;
    status = response.status;
  }
  void set_producer(std::function<void()> producer) override {
    post([this, producer = std::move(producer)] {
      producer_ = producer;
      produce();
    });
  }
  void wake() override {
    if (woken_) return;
    woken_ = true;
    post([this] {
      woken_ = false;
      produce();
    });
  }
  void set_on_disconnect(std::function<void()>) override {}
  void start_stream(const HttpHeaders&) override { status = 200; }
  std::string& stream_out() override { return out; }
  void end_stream(bool) override { ++answers; }

  void run() {
    if (running_) return;
    running_ = true;
    while (!tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    running_ = false;
  }
  bool has_producer() const { return producer_ != nullptr; }

  int answers = 0;
  int status = 0;
  std::string out;

 private:
  void post(std::function<void()> task) {
    tasks_.push_back(std::move(task));
    if (at_once_) run();
  }
  void produce() {
    const std::function<void()> producer = producer_;  // it may reset itself
    if (producer) producer();
  }

  const bool at_once_;
  const HttpRequest request_;
  std::deque<std::function<void()>> tasks_;
  std::function<void()> producer_;
  bool running_ = false;
  bool woken_ = false;
};

// Delivers when it is told to; forgets what it does not know, as the engine does.
class ManualEngine final : public Engine {
 public:
  Status submit(Request request) override {
    const int number = submitted_++;
    if (during_submit) during_submit(number);
    if (number == refuse_number) return resource_exhausted("the queue is full");
    open_[request.id] = std::move(request.deliver);
    if (finish_at_once) finish_all(FinishReason::kStop);
    return {};
  }
  void cancel(RequestId id, FinishReason reason) override {
    const auto found = open_.find(id);
    if (found == open_.end()) return;
    const auto deliver = std::move(found->second);
    open_.erase(found);
    finish(deliver, reason);
  }
  void finish_all(FinishReason reason) {
    const auto open = std::exchange(open_, {});
    for (const auto& [id, deliver] : open) finish(deliver, reason);
  }
  EngineStats stats() const override { return {}; }
  const Model& model() const override { std::abort(); }
  const MemoryPlan& memory_plan() const override { return plan_; }
  double seconds_since_progress() const override { return 0.0; }
  bool alive() const override { return true; }
  bool idle() const override { return open_.empty(); }

  std::function<void(int number)> during_submit;
  int refuse_number = -1;
  bool finish_at_once = false;

 private:
  static void finish(const std::function<void(StreamUpdate&&)>& deliver, FinishReason reason) {
    StreamUpdate update;
    update.finish = Finish{.reason = reason, .stop_token = {}, .error = {}, .usage = {}};
    deliver(std::move(update));
  }

  const MemoryPlan plan_;
  std::map<RequestId, std::function<void(StreamUpdate&&)>> open_;
  int submitted_ = 0;
};

class SilentWriter final : public AnswerWriter {
 public:
  void prompt_logprobs(size_t, std::vector<OutputToken>) override {}
  void piece(size_t, Piece&&, const UsageSum&, std::string&) override {}
  void end(const UsageSum&, std::string& out) override { out += "end"; }
};

constexpr int kChoices = 2;
enum AbortTime { kNever, kBefore, kInFirstSubmit, kInSecondSubmit, kBehindSubmit, kBehindFinish };

struct Order {
  AbortTime abort = kNever;
  bool strand_at_once = false;
  bool finish_in_submit = false;
  int refuse_number = -1;
  bool stream = false;

  std::string name() const {
    return "abort " + std::to_string(abort) + (strand_at_once ? ", strand at once" : "") +
           (finish_in_submit ? ", finish in submit" : "") + ", refuse " +
           std::to_string(refuse_number) + (stream ? ", stream" : "");
  }
};

std::vector<Order> all_orders() {
  std::vector<Order> orders;
  for (const AbortTime abort :
       {kNever, kBefore, kInFirstSubmit, kInSecondSubmit, kBehindSubmit, kBehindFinish}) {
    for (const bool at_once : {false, true}) {
      for (const bool finish : {false, true}) {
        for (const int refuse : {-1, 0, 1}) {
          for (const bool stream : {false, true}) {
            orders.push_back({abort, at_once, finish, refuse, stream});
          }
        }
      }
    }
  }
  return orders;
}

class OneRequest {
 public:
  explicit OneRequest(const Order& order)
      : order_(order),
        tokenizer_(tiny_tokenizer()),
        service_(ServiceOptions()),
        exchange_(std::make_shared<ManualExchange>(order.strand_at_once)) {
    engine_.finish_at_once = order.finish_in_submit;
    engine_.refuse_number = order.refuse_number;
    engine_.during_submit = [this](int number) {
      abort_at(number == 0 ? kInFirstSubmit : kInSecondSubmit);
    };
    ServedModel model;
    model.engine = &engine_;
    model.tokenizer = tokenizer_.get();
    service_.set_ready(std::move(model));
  }

  void play() {
    abort_at(kBefore);
    GenerationPlan plan;
    plan.choices.resize(kChoices);
    plan.stream = order_.stream;
    plan.writer = std::make_unique<SilentWriter>();
    Generation::start(service_, exchange_, std::move(plan), RequestRecord{});
    abort_at(kBehindSubmit);
    exchange_->run();
    engine_.finish_all(FinishReason::kStop);
    abort_at(kBehindFinish);
    exchange_->run();
  }

  void check() {
    EXPECT_EQ(exchange_->answers, 1);
    const auto& finished = service_.metrics().finished;
    EXPECT_EQ(std::accumulate(finished.begin(), finished.end(), int64_t{0}), 1);
    EXPECT_EQ(service_.active(), 0);
    EXPECT_TRUE(engine_.idle());
    EXPECT_FALSE(exchange_->has_producer()) << "they would keep each other alive";
    if (order_.stream) {
      EXPECT_TRUE(exchange_->status == 200 || exchange_->out.empty());
    }
    const bool refused = order_.refuse_number >= 0;
    if (order_.abort == kNever || (refused && order_.abort > kInSecondSubmit)) {
      EXPECT_EQ(exchange_->status == 0 ? 200 : exchange_->status, refused ? 429 : 200);
    }
    // What comes before the last choice is accepted is known before anything is shown.
    if (order_.abort == kBefore || order_.abort == kInFirstSubmit) {
      EXPECT_EQ(exchange_->status, 503);
    }
  }

 private:
  void abort_at(AbortTime time) {
    if (order_.abort == time) service_.abort_all("the server is shutting down");
  }

  const Order order_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  ManualEngine engine_;
  Service service_;
  const std::shared_ptr<ManualExchange> exchange_;
};

TEST(Generation, AnswersOnceWhateverTheOrderOfSubmitDeliverAndAbort) {
  set_log(LogLevel::kWarning, nullptr);
  for (const Order& order : all_orders()) {
    SCOPED_TRACE(order.name());
    OneRequest request(order);
    request.play();
    request.check();
  }
}

}  // namespace
}  // namespace baton
