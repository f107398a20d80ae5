#!/usr/bin/env bash
# The CUDA conformance suite, on the GPU machine: kernels and device against the reference, every
# tiny checkpoint against transformers (eager and replayed from graphs), the engine on CPU and
# CUDA, the server with a real request, decode latencies, and a memory check. Runs what
# build_cuda_carry.sh packed; logs go to $OUT, the summary comes last. Exit code 1: something
# failed, or there was no GPU to fail on.
#
#   tools/device/run_cuda_conformance.sh [DIRECTORY]       default: build/cuda-carry
set -u
cd "$(dirname "$0")/../.."
carry=${1:-build/cuda-carry}
out=${OUT:-build/cuda-results}
limit=${SUITE_LIMIT_S:-150}        # seconds per suite
check_limit=${MEMCHECK_LIMIT_S:-45}  # 0: no memory check
mkdir -p "$out"
logs=$(mktemp -d)
programs=$(mktemp -d)
tar -C "$programs" -xJf "$carry/cuda-carry.tar.xz" ||
  python3 -m tarfile -e "$carry/cuda-carry.tar.xz" "$programs" || exit 2
export LD_LIBRARY_PATH=$programs/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
summary=$out/summary.txt
: >"$summary"
started=$SECONDS
failures=0

# All logs in one file, also when this script is stopped.
collect() {
  rm -rf "$programs"
  for log in "$logs"/*.log; do echo "==== $(basename "$log")"; tail -c 4000000 "$log"; done \
    >"$out/logs.txt"
}
trap collect EXIT

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >>"$summary" 2>&1 ||
  failures=1

# count LOG WHAT: the number that googletest printed before WHAT.
count() {
  local n
  n=$(grep -oE "\[ +$2 +\] [0-9]+ test" "$1" | grep -oE '[0-9]+' | tail -n 1)
  echo "${n:-0}"
}

# suite NAME PROGRAM FILTER: runs in the background; its exit code and time go to NAME.rc.
suite() {
  (
    begun=$SECONDS
    timeout "$limit" "$programs/bin/$2" --gtest_filter="$3" >"$logs/$1.log" 2>&1
    echo "$? $((SECONDS - begun))" >"$logs/$1.rc"
  ) &
}

# report NAME: one line of the summary.
report() {
  local rc seconds passed failed skipped
  read -r rc seconds <"$logs/$1.rc"
  passed=$(count "$logs/$1.log" PASSED)
  failed=$(count "$logs/$1.log" FAILED)
  skipped=$(count "$logs/$1.log" SKIPPED)
  # A crash, a time-out or a run in which nothing was tested is a failure too.
  if [ "$rc" != 0 ] || [ "$passed" = 0 ]; then failures=$((failures + 1)); fi
  printf '| %-12s | %6s | %6s | %7s | %4s | %5s s |\n' \
    "$1" "$passed" "$failed" "$skipped" "$rc" "$seconds" >>"$summary"
  grep -E '^\[  FAILED  \]' "$logs/$1.log" | sort -u | head -n 12 >>"$summary"
}

printf '| %-12s | %6s | %6s | %7s | %4s | %7s |\n' suite passed failed skipped exit time >>"$summary"
suite device cuda_device_test '*'
suite kernels kernels_test '*cuda*'
suite conformance cuda_conformance_test '*'
suite parity model_parity_test '*cuda*'
suite engine device_equality_test '*cuda*'
wait
for name in device kernels conformance parity engine; do report "$name"; done

# ask PATH BODY: one request to the server under test, as curl sends it.
port=18000
model=models/baton-mini
ask() {
  local answer
  answer=$(curl -s --max-time 30 "http://127.0.0.1:$port$1" -H 'content-type: application/json' \
    -d "$2")
  echo "$1 $answer" >>"$logs/server.log"
  if grep -q '"completion_tokens": *12' <<<"$answer"; then
    echo "server on cuda: $1 answered" >>"$summary"
  else
    echo "server on cuda: $1 FAILED: ${answer:0:300}" >>"$summary"
    failures=$((failures + 1))
  fi
}
if [ -x "$programs/bin/baton" ]; then
  timeout -k 5 90 "$programs/bin/baton" serve --device cuda --model "$model" --host 127.0.0.1 \
    --port $port >"$logs/server.log" 2>&1 &
  server=$!
  for _ in $(seq 100); do
    curl -sf "http://127.0.0.1:$port/ready" >/dev/null 2>&1 && break
    kill -0 $server 2>/dev/null || break
    sleep 0.2
  done
  ask /v1/completions '{"model": "baton-mini", "prompt": "hello", "max_tokens": 12,
    "temperature": 0, "ignore_eos": true}'
  ask /v1/chat/completions '{"model": "baton-mini", "max_tokens": 12, "temperature": 0,
    "ignore_eos": true, "messages": [{"role": "user", "content": "hello"}]}'
  curl -s "http://127.0.0.1:$port/metrics" | grep -iE 'graph|generation_tokens_total' \
    >>"$logs/server.log"
  kill -TERM $server 2>/dev/null
  wait $server
fi

timeout 60 "$programs/bin/decode_latency" cuda testdata/glm-dsa-list testdata/glm-dsa-geometry \
  testdata/deepseek-v3-yarn testdata/qwen3-moe "$model" >>"$summary" 2>&1 ||
  echo "decode_latency: FAILED" >>"$summary"

if [ "$check_limit" != 0 ]; then
  checker=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [ -x "$checker" ]; then
    timeout "$check_limit" "$checker" --tool memcheck --error-exitcode 9 \
      "$programs/bin/kernels_test" --gtest_filter='*cuda*' --gtest_brief=1 >"$logs/memcheck.log" 2>&1
    rc=$?
    errors=$(grep -E 'ERROR SUMMARY' "$logs/memcheck.log" | tail -n 1)
    echo "memcheck: exit $rc ${errors:-(no summary: stopped at $check_limit s)}" >>"$summary"
    if [ $rc != 0 ] && [ $rc != 124 ]; then failures=$((failures + 1)); fi
  else
    echo "memcheck: no compute-sanitizer here" >>"$summary"
  fi
fi

echo "$failures suites failed, $((SECONDS - started)) s" >>"$summary"
for name in parity engine; do
  grep -hE '^\|' "$logs/$name.log" | sort -u >>"$out/tables.txt"
done
cat "$summary"
[ "$failures" = 0 ]
