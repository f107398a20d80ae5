"""Random requests of every shape: streamed answers equal whole ones, and nothing breaks the server.

Seeds are fixed, so that a failure can be repeated.
"""
import copy
import json
import random
import unittest

from baton_process import ROOT, Server

TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {
    "type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/x"}}}}}
CHAT = {
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "x"}, {"role": "user", "content": "q"}],
    "tools": [TOOL], "tool_choice": "auto", "temperature": 0.5, "top_p": 0.9, "top_k": 5,
    "min_p": 0.1, "seed": 1, "max_tokens": 5, "n": 2, "stop": ["a"], "stop_token_ids": [5],
    "logit_bias": {"5": 1}, "logprobs": True, "top_logprobs": 3, "stream": True,
    "stream_options": {"include_usage": True}, "presence_penalty": 1, "frequency_penalty": 1,
    "repetition_penalty": 1.1, "min_tokens": 2, "ignore_eos": True, "priority": 1,
    "cache_salt": "s", "chat_template_kwargs": {"enable_thinking": True},
    "thinking": {"type": "enabled"}, "reasoning_effort": "low",
    "response_format": {"type": "text"}, "return_token_ids": True, "skip_special_tokens": False}
COMPLETION = {"prompt": ["a", [1, 2]], "max_tokens": 3, "echo": True, "logprobs": 2, "n": 2,
              "stop": "x", "seed": 1, "add_special_tokens": False, "stream": False, "best_of": 1}
ODD = [None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -2**63, 1.5, 1e308, "", "x", "\0",
       "😀" * 10, [], [[]], {}, {"a": 1}, [None], [1, "x"], {"type": "function"}, {"": None}]


def paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
        value, list) else ()
    for key, child in items:
        yield from paths(child, path + (key,))


def mutated(body, generator):
    body = copy.deepcopy(body)
    for _ in range(generator.choice([1, 1, 2, 3])):
        path = generator.choice(list(paths(body)))
        if not path:
            return copy.deepcopy(generator.choice(ODD))
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        if isinstance(holder, dict) and generator.random() < 0.2:
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(generator.choice(ODD))
    return body


def gathered(answer):
    """The choices of an answer, whole or streamed, and its usage."""
    events = [answer] if isinstance(answer, dict) else [
        json.loads(line[6:]) for line in answer.split("\n") if line.startswith("data: {")]
    choices, usage = {}, None
    for event in events:
        usage = event.get("usage") or usage
        for choice in event["choices"]:
            part = choice.get("delta") or choice.get("message") or {}
            known = choices.setdefault(choice["index"], {
                "text": "", "reasoning": "", "ids": [], "prompt": [], "end": None, "stop": None,
                "logprobs": []})
            known["text"] += choice.get("text") or part.get("content") or ""
            known["reasoning"] += part.get("reasoning_content") or ""
            known["ids"] += choice.get("token_ids") or []
            known["prompt"] += choice.get("prompt_token_ids") or []
            known["end"] = choice["finish_reason"] or known["end"]
            known["stop"] = choice.get("stop_reason") or known["stop"]
            logprobs = choice.get("logprobs") or {}
            known["logprobs"] += logprobs.get("content") or list(zip(*(
                logprobs[name] for name in sorted(logprobs) if logprobs[name] is not None)))
    return choices, {name: usage[name] for name in ("prompt_tokens", "completion_tokens")}


class Random(unittest.TestCase):
    def request(self, pick):
        """A valid request, and its path."""
        body = {"max_tokens": pick.choice([1, 2, 5, 20, None, 300]), "seed": pick.randrange(1000),
                "temperature": pick.choice([0, 0.7, 1.5]), "n": pick.choice([1, 1, 2, 4]),
                "return_token_ids": True}
        for share, fields in (
                (0.4, {"stop": pick.choice(["a", " ", "e", ["the", "b"], "\n", "\ufffd"])}),
                (0.3, {"include_stop_str_in_output": True}), (0.3, {"ignore_eos": True}),
                (0.3, {"stop_token_ids": [pick.randrange(500) for _ in range(40)]}),
                (0.3, {"repetition_penalty": 1.2, "presence_penalty": 0.5}),
                (0.3, {"top_k": 5}), (0.3, {"skip_special_tokens": False})):
            if pick.random() < share:
                body.update(fields)
        if pick.random() < 0.4:
            content = "".join(pick.choice("abcé 你") for _ in range(pick.randrange(1, 30)))
            body["messages"] = [{"role": "user", "content": content}]
            if pick.random() < 0.5:
                body.update(logprobs=True, top_logprobs=3)
            return "/v1/chat/completions", body
        body["prompt"] = pick.choice([
            "hello", [pick.randrange(500) for _ in range(pick.choice([1, 2, 63, 64, 65, 100]))],
            ["a", "bc"], [[5], [6, 7]]])
        if pick.random() < 0.5:
            body["logprobs"] = pick.choice([0, 2])
        body["echo"] = pick.random() < 0.4
        if pick.random() < 0.15:
            body["max_tokens"] = 0
        return "/v1/completions", body

    def test_streamed_answers_equal_whole_ones(self):  # AP-16, AP-17, CT-12 among others
        pick = random.Random(1)
        for interval in ("1", "3"):
            with Server(ROOT / "testdata/qwen3", "--max-model-len", "256",
                        "--stream-interval", interval) as server:
                for _ in range(60):
                    path, body = self.request(pick)
                    status, answer = server.post(path, body)
                    self.assertEqual(status, 200, (body, answer))
                    whole = gathered(answer)
                    streamed = gathered(server.post(path, {
                        **body, "stream": True, "stream_options": {"include_usage": True}})[1])
                    self.assertEqual(streamed, whole, body)
                    prompts = len(body["prompt"]) if isinstance(
                        (body.get("prompt") or [0])[0], (str, list)) and isinstance(
                        body.get("prompt"), list) else 1
                    choices, usage = whole
                    self.assertEqual(sorted(choices), list(range(prompts * body["n"])))
                    self.assertEqual(usage["completion_tokens"],
                                     sum(len(choice["ids"]) for choice in choices.values()))
                    for choice in choices.values():
                        if "logprobs" in body:
                            shown = len(choice["prompt"]) if body.get("echo") else 0
                            self.assertEqual(len(choice["logprobs"]), shown + len(choice["ids"]))

    def test_choices_of_one_seed_differ_and_can_be_repeated(self):  # AP-17
        body = {"prompt": [5, 6, 7], "max_tokens": 20, "temperature": 1, "seed": 1, "n": 4,
                "ignore_eos": True, "return_token_ids": True}
        with Server(ROOT / "testdata/qwen3", "--max-model-len", "256") as server:
            answers = [[choice["token_ids"] for choice in server.post(
                "/v1/completions", body)[1]["choices"]] for _ in range(2)]
            self.assertEqual(answers[0], answers[1])
            self.assertEqual(len(set(map(tuple, answers[0]))), 4)
            alone = server.post("/v1/completions", {**body, "n": 1, "seed": 3})[1]
            self.assertEqual(alone["choices"][0]["token_ids"], answers[0][2])  # seed + index

    def test_mutated_requests_are_answered_or_refused(self):
        pick = random.Random(2)
        with Server(ROOT / "testdata/qwen3", "--max-model-len", "512") as server:
            for _ in range(500):
                path, base = pick.choice([
                    ("/v1/chat/completions", CHAT), ("/v1/completions", COMPLETION),
                    ("/tokenize", CHAT), ("/detokenize", {"tokens": [1, 2]})])
                body = mutated(base, pick)
                status, answer = server.post(path, body)
                self.assertIn(status, (200, 400, 404), (path, body, answer))
                if status != 200:
                    self.assertTrue(answer["error"]["message"], (path, body))
            load = server.get("/load")[1]
            self.assertEqual((load["running"], load["waiting"], load["blocks_referenced"]),
                             (0, 0, 0))
            self.assertEqual(server.get("/health")[0], 200)


if __name__ == "__main__":
    unittest.main()
