"""The process as an operator sees it: start, readiness, draining, disconnects, health, logs."""
import http.client
import http.server
import json
import pathlib
import re
import resource
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from baton_process import BATON, MINI, Server, free_port, run, scripted_model, wait_until


def chat(text="x", **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


def open_stream(server, **fields):
    """Starts a streamed chat; returns the connection and its answer after the first event."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/v1/chat/completions", json.dumps(chat(stream=True, **fields)))
    answer = connection.getresponse()
    answer.readline()
    return connection, answer


class Running(unittest.TestCase):
    """Against one server with an endless model of 10 ms a token."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(scripted_model([], mode="copy", step_delay_ms=10))
        cls.server = cls.enterClassContext(Server(folder, "--max-queued-requests", "4",
                                                  "--max-num-seqs", "2"))

    def idle(self):
        load = self.server.get("/load")[1]
        return (load["running"], load["waiting"], load["blocks_referenced"]) == (0, 0, 0)

    def setUp(self):
        self.assertTrue(wait_until(self.idle))

    def test_a_client_that_leaves_frees_everything(self):  # AP-01
        for stream in (False, True):
            for n in (1, 3):  # with two sequences a step, the third choice is queued
                with self.subTest(stream=stream, n=n):
                    before = self.server.metric("baton:requests_finished_total")
                    body = json.dumps(chat(max_tokens=1500, ignore_eos=True, stream=stream, n=n))
                    done = subprocess.run(
                        ["curl", "-sS", "--max-time", "0.4",
                         self.server.url + "/v1/chat/completions", "-d", body],
                        capture_output=True, timeout=20)
                    self.assertEqual(done.returncode, 28, done.stderr)
                    self.assertTrue(wait_until(self.idle, 1.0))
                    self.assertEqual(self.server.metric("baton:requests_finished_total"),
                                     before + 1)

    def test_overload_is_refused_at_once(self):  # AP-12
        results = []

        def ask():
            results.append(self.server.post("/v1/chat/completions",
                                            chat(max_tokens=30, ignore_eos=True)))
        threads = [threading.Thread(target=ask) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        codes = [status for status, _ in results]
        self.assertEqual(set(codes), {200, 429})
        for status, answer in results:
            if status == 200:
                self.assertEqual(answer["usage"]["completion_tokens"], 30)

    def test_streams_and_probes_go_on_beside_a_huge_body(self):  # AP-22
        connection, answer = open_stream(self.server, max_tokens=200, ignore_eos=True)
        slowest = 0.0
        results = []

        def send():
            results.append(self.server.post("/v1/chat/completions", chat("word " * 5_500_000)))
        thread = threading.Thread(target=send)
        thread.start()
        while thread.is_alive():
            start = time.time()
            self.assertEqual(self.server.get("/health")[0], 200)
            slowest = max(slowest, time.time() - start)
            time.sleep(0.02)
        thread.join()
        self.assertEqual(results[0][0], 400)
        self.assertLess(slowest, 3.0)  # it would be the whole tokenising otherwise
        self.assertIn(b"[DONE]", answer.read())
        connection.close()

    def test_deep_json_is_refused(self):  # AP-06
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=10)
        body = b'{"model":"m","x":' + b"[" * 100000 + b"]" * 100000 + b"}"
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" %
                           len(body) + body)
        self.assertIn(b"400", connection.recv(100))
        connection.close()
        self.assertEqual(self.server.get("/health")[0], 200)

    def test_cache_counters_are_the_sums_of_usage(self):  # OB-03, OB-12
        names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total",
                 "vllm:prompt_tokens_total", "vllm:generation_tokens_total")
        before = [self.server.metric(name) for name in names]
        prompt, cached, output = 0, 0, 0
        for _ in range(3):
            body = {"prompt": [500 + i for i in range(300)], "max_tokens": 3, "ignore_eos": True}
            usage = self.server.post("/v1/completions", body)[1]["usage"]
            prompt += usage["prompt_tokens"]
            cached += usage["prompt_tokens_details"]["cached_tokens"]
            output += usage["completion_tokens"]
        after = [self.server.metric(name) for name in names]
        self.assertEqual([b - a for a, b in zip(before, after)], [prompt, cached, prompt, output])
        self.assertEqual(cached, 2 * 256)
        self.assertTrue(wait_until(self.idle))
        self.assertEqual(self.server.metric("vllm:kv_cache_usage_perc"), 0)
        self.assertGreater(self.server.metric("baton:kv_cache_cached_share"), 0)


class Starting(unittest.TestCase):
    def test_probes_answer_before_the_model_is_ready(self):  # OB-05
        with Server(MINI, "--max-model-len", "2048", wait=False) as server:
            seen = []

            def ready():
                try:
                    alive = server.get("/health")
                    refused = server.post("/v1/chat/completions", chat(max_tokens=1))[0]
                    seen.append((alive[0], alive[1]["phase"], server.get("/ready")[0], refused))
                except OSError:
                    return False  # the port is not open yet
                return seen[-1][2] == 200
            self.assertTrue(wait_until(ready, 60), server.text())
            for health, phase, status, chat_status in seen:
                self.assertEqual(health, 200)
                if phase == "loading" and status == 503:
                    self.assertIn(chat_status, (200, 503))  # it may have become ready in between
            self.assertEqual(server.post("/v1/chat/completions", chat(max_tokens=1))[0], 200)


class Ending(unittest.TestCase):
    def start(self, *flags):
        folder = self.enterContext(scripted_model([], mode="copy", step_delay_ms=20))
        return self.enterContext(Server(folder, *flags))

    def test_running_streams_finish_and_new_requests_are_refused(self):  # AP-23
        server = self.start("--drain-timeout", "20")
        streams = [open_stream(server, max_tokens=60, ignore_eos=True) for _ in range(3)]
        server.terminate()
        self.assertTrue(wait_until(lambda: server.get("/ready")[0] == 503))
        self.assertEqual(server.post("/v1/chat/completions", chat())[0], 503)
        self.assertEqual(server.get("/health")[0], 200)
        for connection, answer in streams:
            text = answer.read().decode()
            self.assertIn('"finish_reason":"length"', text)
            self.assertTrue(text.endswith("data: [DONE]\n\n"))
            connection.close()
        self.assertEqual(server.process.wait(10), 0)

    def test_what_does_not_finish_in_time_ends_with_an_error(self):
        server = self.start("--drain-timeout", "0.3")
        connection, answer = open_stream(server, max_tokens=2000, ignore_eos=True)
        server.terminate()
        text = answer.read().decode()
        self.assertIn("shutting down", text)
        self.assertTrue(text.endswith("data: [DONE]\n\n"))
        connection.close()
        self.assertEqual(server.process.wait(10), 0)

    def test_a_second_signal_ends_at_once(self):
        server = self.start("--drain-timeout", "60")
        connection, _ = open_stream(server, max_tokens=2000, ignore_eos=True)
        server.terminate()
        self.assertTrue(wait_until(lambda: server.get("/ready")[0] == 503))
        time.sleep(0.3)  # signals that come together are one
        server.process.send_signal(signal.SIGINT)
        self.assertNotEqual(server.process.wait(5), 0)
        connection.close()


class Dying(unittest.TestCase):
    def test_an_engine_that_ends_takes_the_process_with_it(self):  # OB-04, AP-19
        scripts = ["0123456789" * 100, {"play": "0123456789", "when": [301], "throw_at": 3}]
        with scripted_model(scripts, step_delay_ms=5) as folder, Server(folder) as server:
            streams = [open_stream(server) for _ in range(3)]
            status, answer = server.post("/v1/completions", {"prompt": [301], "max_tokens": 10})
            self.assertEqual(status, 500, answer)
            for connection, stream in streams:
                text = stream.read().decode()
                self.assertIn('"error"', text)
                self.assertTrue(text.endswith("data: [DONE]\n\n"))
                connection.close()
            self.assertEqual(server.process.wait(10), 1)  # a supervisor starts it anew
            self.assertIn("the engine has stopped", server.text())


class Logs(unittest.TestCase):
    CANARY = "ZQX-CANARY-17"

    def requests(self):
        """(path, body) with the canary wherever a client can put it, and the expected status."""
        canary = self.CANARY
        call = {"id": canary, "type": "function",
                "function": {"name": canary, "arguments": json.dumps({canary: canary})}}
        tool = {"type": "function", "function": {
            "name": "f", "description": canary,
            "parameters": {"type": "object", "properties": {canary: {"pattern": canary}}}}}
        asked = chat(canary)
        for fields, status in (
                ({}, 200), ({"stop": [canary]}, 200), ({"tools": [tool]}, 200),
                ({"max_tokens": 3}, 200), ({"metadata": {canary: canary}, "user": canary}, 200),
                ({canary: canary}, 200), ({"temperature": canary}, 400), ({"stop": [5]}, 400),
                ({"tools": [{"type": canary}]}, 400), ({"tool_choice": canary}, 400),
                ({"response_format": {"type": "json_schema", "json_schema": {
                    "name": canary, "schema": {"pattern": canary}}}}, 400),
                ({"model": canary * 50}, 404), ({"guided_regex": canary}, 400),
                ({"chat_template_kwargs": canary}, 400),
                ({"messages": [{"role": canary, "content": canary}]}, 400),
                ({"messages": [{"role": "system", "content": canary},
                               {"role": "assistant", "content": canary, "tool_calls": [call]},
                               {"role": "tool", "content": canary, "tool_call_id": canary},
                               {"role": "user", "content": canary}]}, 200),
                ({"messages": [{"role": "assistant", "tool_calls": [{**call, "function": {
                    "name": "f", "arguments": canary}}]}]}, 400)):
            yield "/v1/chat/completions", {**asked, **fields}, status
        yield "/v1/completions", {"prompt": f"{canary} " * 2000}, 400
        yield "/v1/completions", {"prompt": [[canary]]}, 400
        yield "/v1/completions", {"prompt": canary, "suffix": canary}, 400

    def test_one_line_for_each_request_and_no_content(self):  # OB-08, OB-09, OB-10, OB-01
        with scripted_model([f"<think>{self.CANARY}</think>{self.CANARY}"],
                            step_delay_ms=2) as folder, Server(folder) as server:
            for _ in range(30):
                for path in ("/health", "/ready", "/metrics", "/v1/models"):
                    server.get(path)
            ended = {"stop": 0, "length": 0, "rejected": 0, "abort": 0}
            for path, body, wanted in self.requests():
                for stream in (False, True):
                    status, answer = server.post(path, {**body, "stream": stream})
                    self.assertEqual(status, wanted, (body, answer))
                    if status != 200:
                        self.assertLess(len(answer["error"]["message"]), 300)
                        self.assertLessEqual(json.dumps(answer).count(self.CANARY), 8)
                    ended["rejected" if status != 200 else
                          "length" if "max_tokens" in body else "stop"] += 1
            for stream in (False, True):  # a client that leaves
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
                connection.request("POST", "/v1/completions", json.dumps(
                    {"prompt": self.CANARY, "max_tokens": 1000, "ignore_eos": True,
                     "stream": stream}), {"X-Request-Id": f"left-{stream}", "X-Other": self.CANARY})
                self.assertTrue(wait_until(lambda: server.get("/load")[1]["server_load"] == 1))
                connection.close()
                self.assertTrue(wait_until(lambda: server.get("/load")[1]["server_load"] == 0))
                ended["abort"] += 1
            for raw in (f'{{"prompt": "{self.CANARY}', f'{{"prompt": {self.CANARY}}}'):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
                connection.request("POST", "/v1/completions", raw, {"X-Request-Id": "broken.1"})
                answer = connection.getresponse()
                self.assertEqual((answer.status, answer.getheader("x-request-id")),
                                 (400, "broken.1"))
                self.assertNotIn(self.CANARY, answer.read().decode())
                connection.close()
                ended["rejected"] += 1
            page = server.get("/metrics")[1]
            log = server.text()
        self.assertNotIn("CANARY", log + page)
        self.assertEqual(log.count(" id="), sum(ended.values()), log)
        for reason, count in ended.items():
            self.assertEqual(log.count(f"reason={reason} "), count, reason)
            self.assertRegex(page, f'baton:requests_finished_total.*reason="{reason}"}} {count}\n')
        for name in ("left-True", "left-False"):
            self.assertEqual(log.count(f"id={name} "), 1)
        self.assertEqual(log.count("id=broken.1 "), 2)

    def test_metrics_are_wellformed(self):
        with scripted_model(["x"]) as folder, Server(folder) as server:
            server.post("/v1/completions", {"prompt": "x"})
            kinds, samples = {}, {}
            for line in server.get("/metrics")[1].splitlines():
                if line.startswith("# TYPE "):
                    _, _, name, kind = line.split(" ")
                    self.assertNotIn(name, kinds)
                    kinds[name] = kind
                elif not line.startswith("#"):
                    match = re.fullmatch(r'([a-z_:0-9]+)\{([^{}]*)\} ([-+.e0-9]+)', line)
                    self.assertTrue(match, line)
                    samples[(match[1], match[2])] = float(match[3])
            for (name, labels), value in samples.items():
                base = re.sub("_(bucket|sum|count)$", "", name)
                self.assertTrue(name in kinds or kinds.get(base) == "histogram", name)
                if name.endswith("_count") and kinds.get(base) == "histogram":
                    buckets = [v for (n, l), v in samples.items()
                               if n == base + "_bucket" and l.startswith(labels)]
                    self.assertEqual(buckets, sorted(buckets))
                    self.assertEqual(buckets[-1], value)
            for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc",
                         "prefix_cache_queries_total", "prefix_cache_hits_total",
                         "num_preemptions_total", "prompt_tokens_total", "generation_tokens_total",
                         "request_success_total", "time_to_first_token_seconds",
                         "inter_token_latency_seconds", "e2e_request_latency_seconds",
                         "request_queue_time_seconds", "request_prefill_time_seconds",
                         "request_decode_time_seconds"):
                self.assertIn("vllm:" + name, kinds)

    def test_debug_shows_probes(self):
        with scripted_model(["x"]) as folder, Server(folder, "--log-level", "debug") as server:
            server.get("/version")
            self.assertIn("GET /version", server.text())


class OpenFiles(unittest.TestCase):
    """A connection is an open file."""

    def connect(self, server, count):
        connections = [socket.create_connection(("127.0.0.1", server.port), timeout=10)
                       for _ in range(count)]
        for connection in connections:
            self.addCleanup(connection.close)
        return connections

    def start(self, soft, hard):
        folder = self.enterContext(scripted_model(["x"]))
        return self.enterContext(Server(folder, limits=(resource.RLIMIT_NOFILE, (soft, hard))))

    def test_a_low_limit_is_raised(self):
        server = self.start(100, 1000)
        self.connect(server, 200)
        self.assertEqual(server.get("/health")[0], 200)

    def test_more_connections_than_files_are_refused_not_left_hanging(self):
        server = self.start(100, 100)
        self.assertIn("room for 52 connections", server.text())
        self.connect(server, 52)
        self.assertTrue(wait_until(lambda: server.get("/health")[0] == 503))


class Ipv6(unittest.TestCase):
    def test_serves_and_is_talked_to(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as error:
            self.skipTest(str(error))
        with scripted_model(["Hello"]) as folder, tempfile.TemporaryFile() as log:
            port = free_port()
            process = subprocess.Popen([BATON, "serve", str(folder), "--host", "::1", "--port",
                                        str(port)], stdout=log, stderr=log)
            try:
                url = f"http://[::1]:{port}"
                self.assertTrue(wait_until(
                    lambda: run("chat", "--url", url, "--prompt", "x")[:2] == (0, "Hello\n"), 60))
                log.seek(0)
                text = log.read().decode()
                self.assertIn(f"listening on [::1]:{port}", text)
                self.assertIn(f"--url {url}\n", text)
            finally:
                process.kill()
                process.wait()


class UnixSocket(unittest.TestCase):
    def test_serves_on_a_unix_socket(self):
        with scripted_model(["x"]) as folder, tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "baton.sock"
            process = subprocess.Popen([BATON, "serve", str(folder), "--uds", str(path)],
                                       stderr=subprocess.DEVNULL)
            try:
                def ready():
                    done = subprocess.run(["curl", "-s", "--unix-socket", str(path),
                                           "http://baton/ready"], capture_output=True, timeout=10)
                    return b'"ready":true' in done.stdout
                self.assertTrue(wait_until(ready, 60))
                process.terminate()
                self.assertEqual(process.wait(10), 0)
                self.assertFalse(path.exists())
            finally:
                process.kill()
                process.wait()


class OtherServer(http.server.BaseHTTPRequestHandler):
    """Answers as other servers do: null where there is nothing to say, errors of another shape."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.server.events else 400)
        self.send_header("Transfer-Encoding" if self.server.events else "Content-Length",
                         "chunked" if self.server.events else "16")
        self.end_headers()
        if not self.server.events:
            self.wfile.write(b'{"error":"busy"}')
            return
        for event in self.server.events:
            data = f"data: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_):
        pass


class Verbs(unittest.TestCase):
    def test_chat_with_a_server_that_says_things_differently(self):
        for events, code, out in (
                ([{"choices": [{"delta": {"role": "assistant", "content": None}}]},
                  {"choices": [{"delta": {"reasoning_content": None, "content": "Hi"}}]},
                  {"choices": []}, {"object": "x"}], 0, "Hi\n"),
                ([], 1, "\n")):
            server = http.server.HTTPServer(("127.0.0.1", 0), OtherServer)
            server.events = events
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                url = f"http://127.0.0.1:{server.server_port}"
                self.assertEqual(run("chat", "--url", url, "--prompt", "x")[:2], (code, out))
            finally:
                server.shutdown()
                server.server_close()

    def test_chat_complete_and_bench(self):
        with scripted_model(["Hello 你好"]) as folder:
            code, out, err = run("chat", folder, "--prompt", "hi")
            self.assertEqual((code, out), (0, "Hello 你好\n"), err)
            code, out, err = run("chat", folder, stdin=b"one\ntwo\n")
            self.assertEqual((code, out), (0, "Hello 你好\nHello 你好\n"), err)
            code, out, err = run("complete", folder, "--prompt", "hi")
            self.assertEqual((code, out), (0, "Hello 你好\n"), err)
            with Server(folder) as server:
                code, out, err = run("chat", "--url", server.url, "--prompt", "hi")
                self.assertEqual((code, out), (0, "Hello 你好\n"), err)
                code, out, err = run("bench", "serve", "--url", server.url, "--num-prompts", "6",
                                     "--input-len", "20", "--output-len", "4",
                                     "--max-concurrency", "3", "--output-json", "-")
                self.assertEqual(code, 0, err)
                report = json.loads(out)
                self.assertEqual((report["requests"], report["failed"]), (6, 0))
                self.assertEqual(report["prompt_tokens"], 120)
                for name in ("ttft_ms", "e2e_ms"):
                    self.assertGreater(report[name]["p50"], 0)
        code, _, err = run("chat", "--url", f"http://127.0.0.1:{free_port()}", "--prompt", "x")
        self.assertEqual(code, 1)
        self.assertIn("cannot connect", err)

    def test_bench_in_this_process(self):
        with scripted_model([], mode="copy") as folder:
            for kind in ("latency", "throughput"):
                code, out, err = run("bench", kind, folder, "--input-len", "16", "--output-len",
                                     "8", "--output-json", "-")
                self.assertEqual(code, 0, err)
                report = json.loads(out)
                self.assertEqual(report["failed"], 0)
                self.assertEqual(report["output_tokens"], 8 * report["requests"])
                code, out, err = run("bench", kind, folder, "--input-len", "16", "--output-len",
                                     "8")
                self.assertIn("time to first token", out)

    def test_version_and_help(self):
        self.assertRegex(run("version")[1], r"^baton \d+\.\d+\.\d+\n$")
        self.assertIn("serve", run("--help")[1])
        self.assertIn("--max-model-len", run("serve", "--help")[1])


if __name__ == "__main__":
    unittest.main()
