// Throughput of encoding, in bytes of text a second on one thread.
//   tokenizer_benchmark MODEL_DIR TEXT_FILE [Google Benchmark flags]
#include <benchmark/benchmark.h>

#include <cstdio>
#include <string>

#include "base/json.h"
#include "text/tokenizer.h"

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (argc != 3) {
    std::fprintf(stderr, "usage: tokenizer_benchmark MODEL_DIR TEXT_FILE\n");
    return 2;
  }
  const auto tokenizer = baton::Tokenizer::load(argv[1]);
  const auto text = baton::read_file(argv[2]);
  if (!tokenizer || !text) {
    const baton::Error& error = tokenizer ? text.error() : tokenizer.error();
    std::fprintf(stderr, "%s\n", error.message.c_str());
    return 1;
  }
  benchmark::RegisterBenchmark("encode", [&](benchmark::State& state) {
    size_t tokens = 0;
    for (auto _ : state) tokens = (*tokenizer)->encode_plain(*text).size();
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text->size()));
    state.counters["tokens"] = static_cast<double>(tokens);
  });
  benchmark::RegisterBenchmark("decode", [&](benchmark::State& state) {
    const std::vector<int32_t> ids = (*tokenizer)->encode_plain(*text);
    for (auto _ : state) benchmark::DoNotOptimize((*tokenizer)->decode(ids, true));
    state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text->size()));
  });
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
