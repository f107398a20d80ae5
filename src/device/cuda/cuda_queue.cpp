#include "device/cuda/cuda_queue.h"

#include "base/check.h"

namespace baton {
namespace {

class CudaEvent final : public Event {
 public:
  CudaEvent(cudaEvent_t event, cudaError_t error) : event_(event), error_(error) {}
  ~CudaEvent() override {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // A failed event counts as done: wait() then says what failed.
  bool done() const override {
    return error_ != cudaSuccess || cudaEventQuery(event_) != cudaErrorNotReady;
  }
  Status wait() override {
    if (error_ != cudaSuccess)
      return internal_error(describe_cuda_error(error_, "cudaEventRecord"));
    const cudaError_t waited = cudaEventSynchronize(event_);
    if (waited != cudaSuccess) {
      return internal_error(describe_cuda_error(waited, "cudaEventSynchronize"));
    }
    return {};
  }

 private:
  cudaEvent_t event_;
  cudaError_t error_;
};

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraphExec_t executable) : executable_(executable) {}
  ~CudaGraph() override { cudaGraphExecDestroy(executable_); }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  cudaGraphExec_t executable() const { return executable_; }

 private:
  cudaGraphExec_t executable_;
};

}  // namespace

std::string describe_cuda_error(cudaError_t error, std::string_view call) {
  return "cuda: " + std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) +
         ") in " + std::string(call);
}

CudaQueue::~CudaQueue() {
  cudaSetDevice(index_);
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

cudaStream_t CudaQueue::stream() {
  note(cudaSetDevice(index_), "cudaSetDevice");
  return stream_;
}

void CudaQueue::note(cudaError_t error, std::string_view call) {
  if (error != cudaSuccess && error_.empty()) error_ = describe_cuda_error(error, call);
}

void CudaQueue::note_launch(std::string_view op) {
  note(cudaGetLastError(), op);
#ifndef NDEBUG
  if (!capturing_) note(cudaStreamSynchronize(stream_), op);
#endif
}

void CudaQueue::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
}

void CudaQueue::fill(void* to, uint8_t value, size_t bytes) {
  if (bytes == 0) return;
  note(cudaMemsetAsync(to, value, bytes, stream()), "cudaMemsetAsync");
}

Status CudaQueue::take_error() {
  if (error_.empty()) return {};
  Status status = internal_error(std::move(error_));
  error_.clear();
  return status;
}

Status CudaQueue::synchronize() {
  note(cudaStreamSynchronize(stream()), "cudaStreamSynchronize");
  note(cudaGetLastError(), "an earlier call");
  return take_error();
}

std::unique_ptr<Event> CudaQueue::record() {
  cudaEvent_t event = nullptr;
  const cudaStream_t on = stream();
  cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  if (error == cudaSuccess) error = cudaEventRecord(event, on);
  note(error, "cudaEventRecord");
  return std::make_unique<CudaEvent>(event, error);
}

Status CudaQueue::begin_capture() {
  BATON_CHECK(!capturing_, "begin_capture inside a capture");
  const cudaStream_t on = stream();
  // Thread-local: other threads may allocate or load weights while this one captures.
  const cudaError_t begun = cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal);
  if (begun != cudaSuccess) {
    cudaGetLastError();
    return internal_error(describe_cuda_error(begun, "cudaStreamBeginCapture"));
  }
  capturing_ = true;
  return {};
}

Result<std::unique_ptr<Graph>> CudaQueue::end_capture() {
  BATON_CHECK(capturing_, "end_capture without begin_capture");
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream(), &graph);
  if (ended != cudaSuccess || !error_.empty()) {
    cudaGetLastError();
    if (graph != nullptr) cudaGraphDestroy(graph);
    if (Status first = take_error(); !first) return first.error();
    return internal_error(describe_cuda_error(ended, "cudaStreamEndCapture"));
  }
  cudaGraphExec_t executable = nullptr;
  const cudaError_t built = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (built != cudaSuccess) {
    cudaGetLastError();
    return internal_error(describe_cuda_error(built, "cudaGraphInstantiate"));
  }
  return std::unique_ptr<Graph>(std::make_unique<CudaGraph>(executable));
}

void CudaQueue::replay(const Graph& graph) {
  const auto* captured = dynamic_cast<const CudaGraph*>(&graph);
  BATON_CHECK(captured != nullptr, "a CUDA queue was given another device's graph");
  note(cudaGraphLaunch(captured->executable(), stream()), "cudaGraphLaunch");
}

CudaQueue& cuda_queue(Queue& queue) {
  auto* cuda = dynamic_cast<CudaQueue*>(&queue);
  BATON_CHECK(cuda != nullptr, "a CUDA kernel was given another device's queue");
  return *cuda;
}

}  // namespace baton
