"""Prefix reuse over HTTP: what is reused, what usage says about it, and that answers never change.

The scripted model's history mode plays a hash of every token so far, read from the KV blocks: a
wrong block anywhere in the table shows as another answer. An answer under a cache_salt of its own
is computed from nothing, so it is what the others are compared with.
"""
import concurrent.futures
import http.client
import itertools
import json
import random
import socket
import unittest

from baton_process import ROOT, Server, scripted_model, tokens_of, wait_until

BLOCK = 64
SALTS = itertools.count()


def complete(server, prompt, fresh=False, **fields):
    """(token ids, usage, choice) of a greedy completion; `fresh`: without any reused block."""
    body = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "ignore_eos": True,
            "return_token_ids": True, **fields}
    if fresh:
        body["cache_salt"] = f"fresh {next(SALTS)}"
    status, answer = server.post("/v1/completions", body)
    if status != 200:
        raise AssertionError(answer)
    return answer["choices"][0]["token_ids"], answer["usage"], answer["choices"][0]


def cached(usage):
    return usage["prompt_tokens_details"]["cached_tokens"]


def ids(count, seed, vocab=8000):
    generator = random.Random(seed)
    return [generator.randrange(vocab) for _ in range(count)]


class Drafts(unittest.TestCase):
    def test_hits_are_those_of_steps_of_one_token(self):  # PC-08
        seen = []
        for per_step in (1, 2, 5):
            with scripted_model([], mode="history", tokens_per_step=per_step,
                                wrong_draft_every=4) as folder, Server(folder) as server:
                counts, prompt = [], ids(100, 9)
                for _ in range(10):
                    before = server.metric("vllm:prefix_cache_hits_total")
                    tokens, usage, _ = complete(server, prompt, max_tokens=40)
                    hits = server.metric("vllm:prefix_cache_hits_total") - before
                    self.assertEqual(hits, cached(usage))
                    counts.append((tokens, hits))
                # The next turn finds what the last one generated, but its last token.
                _, usage, _ = complete(server, prompt + tokens, max_tokens=1)
                seen.append((counts, cached(usage)))
        self.assertEqual(seen[1:], seen[:1] * 2)
        counts, last = seen[0]
        self.assertEqual([hits for _, hits in counts], [0] + [64] * 9)
        self.assertEqual(last, 128)


class History(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(scripted_model([], mode="history",
                                                      max_position_embeddings=16384))
        cls.server = cls.enterClassContext(Server(folder, "--kv-cache-tokens", "65536"))

    def test_other_prompts_blocks_are_never_reused(self):  # PC-02
        # The same tokens in another order, the same second block behind another first one.
        first, second, tail = ids(BLOCK, 1), ids(BLOCK, 2), ids(5, 3)
        prompts = [first + second + tail, second + first + tail, second + second + tail,
                   first + first + tail, first[::-1] + second + tail]
        prompts += [ids(BLOCK + 1, seed) for seed in range(100, 300)]
        for prompt in prompts:
            tokens, _, _ = complete(self.server, prompt)
            self.assertEqual(tokens, complete(self.server, prompt, fresh=True)[0])

    def test_salts_share_nothing(self):  # PC-01
        prompt = ids(200, 4000)
        for salt in (None, "A", "B", "A\0", "tenant A", ""):
            fields = {} if salt is None else {"cache_salt": salt}
            expected = 192 if salt == "" else 0  # the empty salt is none
            self.assertEqual(cached(complete(self.server, prompt, **fields)[1]), expected, salt)
            self.assertEqual(cached(complete(self.server, prompt, **fields)[1]), 192, salt)

    def test_an_interrupted_answer_is_found_by_the_next_turn(self):  # PC-10, AP-20, PC-09
        prompt = ids(400, 5)
        body = {"prompt": prompt, "max_tokens": 12000, "temperature": 0, "ignore_eos": True,
                "stream": True, "return_token_ids": True}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
        connection.request("POST", "/v1/completions", json.dumps(body))
        answer, seen = connection.getresponse(), []
        while len(seen) < 20:
            line = answer.readline()
            if line.startswith(b"data: {"):
                seen += json.loads(line[6:])["choices"][0].get("token_ids") or []
        answer.close()
        connection.close()
        self.assertTrue(wait_until(lambda: self.server.get("/load")[1]["blocks_referenced"] == 0))
        again = prompt + seen + ids(30, 6)
        tokens, usage, _ = complete(self.server, again)
        self.assertGreaterEqual(cached(usage), 400 // BLOCK * BLOCK)
        self.assertEqual(tokens, complete(self.server, again, fresh=True)[0])

    def test_disconnects_leave_no_block_behind(self):  # PC-09
        shared = ids(150, 7)
        for i in range(60):
            body = json.dumps({"prompt": shared + ids(50, i) if i % 2 else ids(200, i),
                               "max_tokens": 1000, "ignore_eos": True, "stream": i % 3 == 0})
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                connection.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s"
                                   % (len(body), body.encode()))
                connection.settimeout(0.001 * (i % 10 + 1))
                try:
                    connection.recv(10)
                except TimeoutError:
                    pass

        def idle():
            load = self.server.get("/load")[1]
            return (load["running"], load["waiting"], load["blocks_referenced"]) == (0, 0, 0)
        self.assertTrue(wait_until(idle))
        tokens, _, _ = complete(self.server, ids(16000, 8))  # a prompt of the whole context fits
        self.assertEqual(len(tokens), 4)


class SmallPool(unittest.TestCase):
    def test_recomputed_tokens_are_no_hits(self):  # PC-06, AP-14
        with scripted_model([], mode="history") as folder, Server(
                folder, "--kv-cache-tokens", "1024", "--max-num-seqs", "16",
                "--max-model-len", "900", "--max-num-batched-tokens", "128") as server:
            generator = random.Random(9)
            asks = [(ids(generator.randrange(10, 300), 1000 + i), generator.randrange(-5, 6))
                    for i in range(30)]
            alone = [complete(server, prompt, max_tokens=80)[0] for prompt, _ in asks]
            self.assertEqual(server.metric("vllm:num_preemptions_total"), 0)
            hits = server.metric("vllm:prefix_cache_hits_total")
            with concurrent.futures.ThreadPoolExecutor(30) as pool:
                together = list(pool.map(
                    lambda ask: complete(server, ask[0], fresh=True, max_tokens=80,
                                         priority=ask[1]), asks))
            self.assertGreater(server.metric("vllm:num_preemptions_total"), 0)
            self.assertEqual([tokens for tokens, _, _ in together], alone)
            self.assertEqual([cached(usage) for _, usage, _ in together], [0] * len(asks))
            self.assertEqual(server.metric("vllm:prefix_cache_hits_total"), hits)


class RealWeights(unittest.TestCase):
    def check(self, name):
        with Server(ROOT / "testdata" / name, "--max-model-len", "1024",
                    "--max-num-batched-tokens", "128") as server:
            for length in (63, 64, 65, 127, 128, 129, 647):
                prompt = ids(length, length, vocab=500)
                miss, _, choice = complete(server, prompt, fresh=True, logprobs=5)
                self.assertEqual(cached(complete(server, prompt)[1]), 0)
                hit, usage, again = complete(server, prompt, logprobs=5)
                self.assertEqual(cached(usage), (length - 1) // BLOCK * BLOCK)
                self.assertEqual((hit, again["logprobs"]), (miss, choice["logprobs"]))
                for other in (prompt[:-1] + [(prompt[-1] + 1) % 500], prompt[:-7]):
                    tokens, usage, choice = complete(server, other, logprobs=5)
                    self.assertEqual(cached(usage), (len(other) - 1) // BLOCK * BLOCK)
                    wanted, _, fresh = complete(server, other, fresh=True, logprobs=5)
                    self.assertEqual((tokens, choice["logprobs"]), (wanted, fresh["logprobs"]))

    def test_a_hit_gives_the_answer_of_a_miss_with_sparse_attention(self):  # PC-03, PC-14
        self.check("glm-dsa-list")

    def test_a_hit_gives_the_answer_of_a_miss_with_plain_attention(self):  # PC-03
        self.check("qwen3")


class Sessions(unittest.TestCase):
    """Agents that work side by side: tools, calls and results grow each turn."""

    def test_every_turn_finds_the_turn_before(self):  # PC-13, CT-18
        call = ("<tool_call>read<arg_key>path</arg_key><arg_value>a.txt</arg_value>"
                "</tool_call>")
        tools = [{"type": "function", "function": {
            "name": name, "description": f"{name} a file " * 12,
            "parameters": {"type": "object", "properties": {
                "z_path": {"type": "string"}, "a_line": {"type": "integer"}}}}}
            for name in ("read", "write", "find")]
        with scripted_model([tokens_of(call)], max_position_embeddings=65536) as folder, \
                Server(folder, "--kv-cache-tokens", "262144") as server:
            sessions = [[{"role": "system", "content": f"You are agent {i}. " + "Rules. " * 60},
                         {"role": "user", "content": "Read the files."}] for i in range(4)]
            totals = [0] * 4
            for turn in range(60):
                for i, messages in enumerate(sessions):
                    status, answer = server.post("/v1/chat/completions",
                                                 {"messages": messages, "tools": tools})
                    self.assertEqual(status, 200, answer)
                    usage = answer["usage"]
                    self.assertGreaterEqual(cached(usage), totals[i] // BLOCK * BLOCK - BLOCK,
                                            f"turn {turn} of session {i}")
                    totals[i] = usage["total_tokens"]
                    message = answer["choices"][0]["message"]
                    messages.append(message)
                    messages.append({"role": "tool", "content": f"line {turn} " * (turn % 7),
                                     "tool_call_id": message["tool_calls"][0]["id"]})


if __name__ == "__main__":
    unittest.main()
