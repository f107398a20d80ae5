"""Many requests at once: answers that do not depend on the others, fairness, and probes that tell
the truth meanwhile. Order is asserted, not speed."""
import concurrent.futures
import http.client
import json
import random
import re
import socket
import threading
import time
import unittest

from baton_process import ROOT, Server, scripted_model, wait_until


def ids(count, seed, vocab=500):
    generator = random.Random(seed)
    return [generator.randrange(vocab) for _ in range(count)]


def everything(answer):
    """What must be equal between two answers to one request."""
    choice = answer["choices"][0]
    return choice["token_ids"], choice["text"], choice["logprobs"], choice["finish_reason"]


def open_stream(server, prompt, **fields):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/completions",
                       json.dumps({"prompt": prompt, "stream": True, "ignore_eos": True, **fields}))
    return connection, connection.getresponse()


class SameAnswers(unittest.TestCase):
    """AP-25: a real tiny model, greedy and seeded, alone and beside 20 others."""

    def check(self, name, *flags):
        asks = []
        for i in range(20):
            asks.append({"prompt": ids(random.Random(i).choice([1, 15, 64, 65, 150, 300]), i),
                         "max_tokens": 12, "temperature": 0 if i % 2 else 0.9, "seed": i,
                         "top_p": 0.95, "ignore_eos": True, "logprobs": 3,
                         "return_token_ids": True})
        with Server(ROOT / "testdata" / name, "--max-model-len", "512", *flags) as server:
            def ask(fields):
                status, answer = server.post("/v1/completions", fields)
                self.assertEqual(status, 200, answer)
                return everything(answer)

            alone = [ask({**fields, "cache_salt": str(i)}) for i, fields in enumerate(asks)]
            stop = threading.Event()

            def load(seed):
                generator = random.Random(1000 + seed)
                while not stop.is_set():
                    server.post("/v1/completions", {
                        "prompt": ids(generator.randrange(1, 200), generator.random()),
                        "max_tokens": generator.randrange(1, 30), "temperature": 1})
            threads = [threading.Thread(target=load, args=(seed,)) for seed in range(3)]
            for thread in threads:
                thread.start()
            with concurrent.futures.ThreadPoolExecutor(20) as pool:
                together = list(pool.map(ask, asks))  # nothing reused
                again = list(pool.map(ask, asks))     # prefixes reused
            stop.set()
            for thread in threads:
                thread.join()
            self.assertEqual(together, alone)
            self.assertEqual(again, alone)
            self.assertGreater(server.metric("vllm:prefix_cache_hits_total"), 0)

    def test_with_sparse_attention(self):
        self.check("glm-dsa-list", "--max-num-batched-tokens", "96", "--max-num-seqs", "12")

    def test_with_plain_attention(self):
        self.check("qwen3")


class LongContext(unittest.TestCase):
    def test_a_cold_prompt_equals_the_same_context_grown_turn_by_turn(self):  # LC-03, LC-11
        prompt = ids(3000, 1)
        body = {"max_tokens": 2, "temperature": 0, "logprobs": 5, "ignore_eos": True,
                "return_token_ids": True}
        answers = []
        for budget in ("4096", "192"):
            with Server(ROOT / "testdata/glm-dsa-list", "--max-num-batched-tokens",
                        budget) as server:
                for length in range(500, 3001, 500):  # turns of 500 tokens
                    grown = server.post("/v1/completions", {**body, "prompt": prompt[:length]})[1]
                self.assertGreaterEqual(
                    grown["usage"]["prompt_tokens_details"]["cached_tokens"], 2500 // 64 * 64)
                cold = server.post("/v1/completions",
                                   {**body, "prompt": prompt, "cache_salt": "cold"})[1]
                self.assertEqual(cold["usage"]["prompt_tokens_details"]["cached_tokens"], 0)
                answers += [everything(grown), everything(cold)]
        for answer in answers[1:]:
            self.assertEqual(answer, answers[0])

    def test_prompt_logprobs_of_a_long_prompt_take_bounded_memory(self):  # LC-14
        def peak(server):
            with open(f"/proc/{server.process.pid}/status") as status:
                return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) / 1024

        with scripted_model([], mode="copy", max_position_embeddings=65536) as folder, \
                Server(folder, "--kv-cache-tokens", "200000",
                       "--max-num-batched-tokens", "2048") as server:
            prompt = [300 + i % 1000 for i in range(12000)]
            before = peak(server)
            connection, stream = open_stream(server, [5], max_tokens=3000)
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(lambda i: server.post("/v1/completions", {
                    "prompt": prompt, "max_tokens": 1, "echo": True, "logprobs": 1,
                    "cache_salt": str(i)}), range(4)))
            # All logits at once would be 4 times 375 MiB.
            self.assertLess(peak(server) - before, 300)
            self.assertIn(b"[DONE]", stream.read())
            connection.close()
            for status, answer in answers:
                self.assertEqual(status, 200, answer)
                logprobs = answer["choices"][0]["logprobs"]
                self.assertEqual(len(logprobs["tokens"]), 12001)
                self.assertEqual(logprobs["token_logprobs"][0], None)
            short = server.post("/v1/completions", {"prompt": prompt[:50], "max_tokens": 1,
                                                    "echo": True, "logprobs": 1})[1]
            for name in ("token_logprobs", "tokens", "text_offset"):
                self.assertEqual(short["choices"][0]["logprobs"][name][:50],
                                 logprobs[name][:50], name)

    def test_the_context_limit_is_exact(self):  # LC-10, TC-05
        with scripted_model([], mode="copy", max_position_embeddings=512) as folder, \
                Server(folder) as server:
            for length, status in ((510, 200), (511, 200), (512, 400), (513, 400), (5000, 400)):
                got, answer = server.post("/v1/completions", {
                    "prompt": [300] * length, "max_tokens": 100, "ignore_eos": True})
                self.assertEqual(got, status, answer)
                if status == 200:
                    self.assertEqual(answer["usage"]["completion_tokens"], 512 - length)
                    self.assertEqual(answer["choices"][0]["finish_reason"], "length")
                else:
                    self.assertIn(str(length), answer["error"]["message"])
                    self.assertIn("512", answer["error"]["message"])
            connection, stream = open_stream(server, [300], max_tokens=None)
            self.assertIn(b'"finish_reason":"length"', stream.read())
            connection.close()
            self.assertEqual(server.get("/health")[0], 200)


class Fairness(unittest.TestCase):
    def test_short_prompts_do_not_wait_for_long_ones(self):  # AP-10
        with scripted_model([], mode="copy", max_position_embeddings=8192,
                            prefill_token_delay_ms=0.3) as folder, \
                Server(folder, "--max-num-batched-tokens", "128") as server:
            done, lock = [], threading.Lock()

            def ask(name, length):
                status, answer = server.post("/v1/completions", {
                    "prompt": [300] * length, "max_tokens": 3, "ignore_eos": True,
                    "cache_salt": name})
                self.assertEqual(status, 200, answer)
                with lock:
                    done.append(name)
            connection, stream = open_stream(server, [300], max_tokens=60)
            stream.readline()
            threads = [threading.Thread(target=ask, args=(f"long {i}", 3000)) for i in range(3)]
            for thread in threads:
                thread.start()
            self.assertTrue(wait_until(lambda: server.get("/load")[1]["running"] >= 2))
            for i in range(5):
                ask(f"short {i}", 50)
            self.assertEqual(done, [f"short {i}" for i in range(5)])
            steps = server.metric("baton:engine_steps_total")
            self.assertIn(b"[DONE]", stream.read())  # decodes in every step
            connection.close()
            self.assertLessEqual(server.metric("baton:engine_steps_total") - steps, 62)
            for thread in threads:
                thread.join()
            self.assertEqual(len(done), 8)

    def test_small_requests_pass_one_that_does_not_fit(self):  # AP-11
        with scripted_model([], mode="copy", step_delay_ms=5) as folder, \
                Server(folder, "--kv-cache-tokens", "1024", "--max-model-len", "1000") as server:
            connection, stream = open_stream(server, [300] * 250, max_tokens=400)
            stream.readline()
            done = []

            def ask(length):
                status, answer = server.post("/v1/completions", {
                    "prompt": [301] * length, "max_tokens": 2, "ignore_eos": True,
                    "cache_salt": str(length)})
                self.assertEqual(status, 200, answer)
                done.append(length)
            big = threading.Thread(target=ask, args=(900,))
            big.start()
            self.assertTrue(wait_until(lambda: server.get("/load")[1]["waiting"] == 1))
            for length in range(40, 50):
                ask(length)
            self.assertEqual(done, list(range(40, 50)))
            self.assertIn(b"[DONE]", stream.read())
            connection.close()
            big.join()  # it had its turn

    def test_the_queue_is_limited_in_tokens_too(self):  # AP-12
        with scripted_model([], mode="copy", step_delay_ms=10,
                            max_position_embeddings=8192) as folder, \
                Server(folder, "--max-num-seqs", "1", "--max-queued-tokens", "1000") as server:
            connection, stream = open_stream(server, [300], max_tokens=100)
            stream.readline()

            def ask(length):
                return server.post("/v1/completions", {"prompt": [301] * length, "max_tokens": 1})
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(ask, [400] * 8))
            self.assertEqual(sorted(status for status, _ in answers), [200] * 2 + [429] * 6)
            self.assertIn(b"[DONE]", stream.read())
            connection.close()
            self.assertEqual(ask(3000)[0], 200)  # nothing else waits

    def test_streams_read_in_reverse_order_all_finish(self):  # AP-24
        with scripted_model([], mode="copy") as folder, \
                Server(folder, "--max-num-seqs", "3") as server:
            for _ in range(10):
                streams = [open_stream(server, [300 + i], max_tokens=10 + 17 * i)
                           for i in range(8)]
                for connection, stream in reversed(streams):
                    self.assertTrue(stream.read().endswith(b"data: [DONE]\n\n"))
                    connection.close()


class Probes(unittest.TestCase):
    def test_a_long_prefill_is_progress(self):  # OB-06
        with scripted_model([], mode="copy", max_position_embeddings=8192,
                            prefill_token_delay_ms=1) as folder, \
                Server(folder, "--max-num-batched-tokens", "128", "--stall-timeout",
                       "1.5") as server:
            result = []
            thread = threading.Thread(target=lambda: result.append(server.post(
                "/v1/completions", {"prompt": [300] * 4000, "max_tokens": 1})))
            start = time.time()
            thread.start()
            while thread.is_alive():
                for path in ("/health", "/ready"):
                    self.assertEqual(server.get(path)[0], 200)
                time.sleep(0.1)
            self.assertGreater(time.time() - start, 3.0)  # twice the stall limit without a token
            self.assertEqual(result[0][0], 200)

    def test_a_step_that_does_not_end_is_not_health(self):  # OB-04
        with scripted_model([], mode="copy", step_delay_ms=1500) as folder, \
                Server(folder, "--stall-timeout", "0.5") as server:
            connection, stream = open_stream(server, [300], max_tokens=1)
            self.assertTrue(wait_until(lambda: server.get("/health")[0] == 503, 3))
            self.assertEqual(server.get("/health")[1]["status"], "stalled")
            self.assertEqual(server.get("/ready")[0], 503)
            self.assertIn(b"[DONE]", stream.read())
            connection.close()
            self.assertTrue(wait_until(lambda: server.get("/health")[0] == 200, 3))

    def test_streams_and_probes_go_on_while_twenty_megabytes_are_tokenised(self):  # AP-22
        # With this context the text is short enough to be tokenised before it is refused.
        with scripted_model([], mode="copy", max_position_embeddings=262144,
                            step_delay_ms=10) as folder, \
                Server(folder, "--kv-cache-tokens", "262144") as server:
            text = "some words of a very long text. " * 650_000
            tool = {"type": "function", "function": {"name": "f", "description": text}}
            bodies = [("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}),
                      ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}],
                                                "tools": [tool]})]
            data = [json.dumps(body).encode() for _, body in bodies]
            stop, streams = threading.Event(), []
            for i in range(5):
                streams.append(open_stream(server, [300 + i], max_tokens=200000))
            tokens = [0] * 5

            def read(i):
                while not stop.is_set():
                    if b'"text"' in streams[i][1].readline():
                        tokens[i] += 1
            readers = [threading.Thread(target=read, args=(i,)) for i in range(5)]
            for reader in readers:
                reader.start()
            for (path, _), body in zip(bodies, data):
                before = list(tokens)
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request("POST", path, body)
                answers = 0
                connection.sock.setblocking(False)
                while True:
                    try:
                        connection.sock.recv(1, socket.MSG_PEEK)
                        break
                    except BlockingIOError:
                        self.assertEqual(server.get("/health")[0], 200)
                        answers += 1
                connection.sock.settimeout(10)
                self.assertEqual(connection.getresponse().status, 400)
                connection.close()
                self.assertGreater(answers, 3)
                for i in range(5):
                    self.assertGreater(tokens[i], before[i] + 3)
            stop.set()
            for reader in readers:
                reader.join()
            for connection, _ in streams:
                connection.close()


class Numbers(unittest.TestCase):
    def histogram(self, server, name):
        """(count, sum, smallest bound that holds every observation)."""
        page = server.get("/metrics")[1]
        count = float(re.search(rf"^{name}_count{{.*}} (.*)$", page, re.M).group(1))
        total = float(re.search(rf"^{name}_sum{{.*}} (.*)$", page, re.M).group(1))
        buckets = re.findall(rf'^{name}_bucket{{.*le="([^"]*)"}} (.*)$', page, re.M)
        below = [bound for bound, held in buckets if float(held) == 0]
        return count, total, max((float(bound) for bound in below), default=0.0)

    def test_times_and_counts_are_those_of_the_requests(self):  # OB-02
        for interval in (1, 4):
            with scripted_model(["0123456789"], step_delay_ms=20,
                                prefill_token_delay_ms=0.5) as folder, \
                    Server(folder, "--stream-interval", str(interval)) as server:
                asked = 4
                for i in range(asked):
                    body = {"prompt": [300 + i] * 201, "max_tokens": 10, "stream": i % 2 == 0}
                    self.assertEqual(server.post("/v1/completions", body)[0], 200)
                server.post("/v1/completions", {"prompt": "x", "max_tokens": -1})
                self.histogram_of_all(server, asked)

    def histogram_of_all(self, server, asked):
        # Delays are lower bounds: 200 prompt tokens of 0.5 ms, then 10 steps of 20 ms.
        for name, each, least in (
                ("vllm:time_to_first_token_seconds", 0.12, 0.1),
                ("vllm:e2e_request_latency_seconds", 0.3, 0.3),
                ("vllm:request_prefill_time_seconds", 0.12, 0.1),
                ("vllm:request_decode_time_seconds", 0.18, 0.1)):
            count, total, below = self.histogram(server, name)
            self.assertEqual(count, asked, name)
            self.assertGreaterEqual(total, asked * each, name)
            self.assertLess(total, asked * each * 3, name)
            self.assertGreaterEqual(below, least, name)  # none sits in a bucket for shorter times
        count, gaps, below = self.histogram(server, "vllm:inter_token_latency_seconds")
        self.assertEqual(count, asked * 9)  # tokens, not deliveries
        self.assertGreaterEqual(gaps, asked * 9 * 0.02 * 0.9)
        self.assertGreaterEqual(below, 0.01)
        parts = sum(self.histogram(server, f"vllm:request_{part}_time_seconds")[1]
                    for part in ("queue", "prefill", "decode"))
        whole = self.histogram(server, "vllm:e2e_request_latency_seconds")[1]
        self.assertLessEqual(parts, whole)
        self.assertGreaterEqual(parts, 0.8 * whole)

    def test_steps_of_several_tokens_count_as_tokens(self):  # OB-02
        with scripted_model(["0123456789"], step_delay_ms=40, tokens_per_step=4) as folder, \
                Server(folder) as server:
            for stream in (True, False):
                body = {"prompt": "x", "max_tokens": 10, "stream": stream}
                self.assertEqual(server.post("/v1/completions", body)[0], 200)
            # Ten tokens in four steps: 1, 4, 4 and 1. The warm-up token is no request's.
            count, gaps, below = self.histogram(server, "vllm:inter_token_latency_seconds")
            self.assertEqual(count, 2 * 9)
            self.assertGreaterEqual(gaps, 2 * 3 * 0.04 * 0.9)
            self.assertLess(gaps, 2 * 9 * 0.04)
            self.assertGreaterEqual(below, 0.001)  # a quarter of a step, not nothing
            self.assertEqual(self.histogram(server, "vllm:request_generation_tokens")[1], 20)
            self.assertEqual(server.metric("vllm:generation_tokens_total"), 21)
            self.assertEqual(server.metric("vllm:spec_decode_num_drafts_total"), 2 * 2)
            self.assertEqual(server.metric("vllm:spec_decode_num_draft_tokens_total"), 2 * 6)
            self.assertEqual(server.metric("vllm:spec_decode_num_accepted_tokens_total"), 2 * 6)
            for place in range(3):
                page = server.get("/metrics")[1]
                name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
                self.assertRegex(page, rf'{name}{{.*position="{place}"}} 4\n')

    def test_every_choice_counts_its_gaps(self):  # OB-02
        with scripted_model(["0123456789"]) as folder, Server(folder) as server:
            server.post("/v1/completions", {"prompt": "x", "max_tokens": 10, "n": 3})
            self.assertEqual(self.histogram(server, "vllm:inter_token_latency_seconds")[0], 27)

    def test_the_usage_gauge_is_what_requests_hold(self):  # OB-03
        with scripted_model([], mode="copy", step_delay_ms=40) as folder, \
                Server(folder, "--kv-cache-tokens", str(100 * 64)) as server:
            total = server.metric("baton:kv_blocks_total")
            streams = [open_stream(server, [300 + i] * 600, max_tokens=38) for i in range(2)]
            for _, stream in streams:
                stream.readline()
            self.assertTrue(wait_until(lambda: abs(
                server.metric("vllm:kv_cache_usage_perc") - 20 / total) < 1e-6, 2))
            for connection, stream in streams:
                stream.read()
                connection.close()
            self.assertTrue(wait_until(lambda: server.metric("vllm:kv_cache_usage_perc") == 0))
            self.assertGreater(server.metric("baton:kv_cache_cached_share"), 0.15)


if __name__ == "__main__":
    unittest.main()
