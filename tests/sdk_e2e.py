"""The openai SDK and curl against `baton serve`."""
import json
import subprocess
import unittest

import openai

from baton_process import ROOT, SYSTEM, TAGS, Server, scripted_model, tokens_of

TEXT = "Hello, world! 你好🦀"
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"},
                                                    "days": {"type": "integer"}}}}}


def join_stream(stream):
    """Content, reasoning, calls and finish reason of a streamed chat."""
    content, reasoning, calls, finish = "", "", {}, None
    for chunk in stream:
        if not chunk.choices:
            continue
        choice = chunk.choices[0]
        content += choice.delta.content or ""
        reasoning += getattr(choice.delta, "reasoning_content", None) or ""
        for call in choice.delta.tool_calls or []:
            known = calls.setdefault(call.index, {"id": call.id, "name": "", "arguments": ""})
            known["name"] += call.function.name or ""
            known["arguments"] += call.function.arguments or ""
        finish = choice.finish_reason or finish
    return content, reasoning, calls, finish


class ScriptedSdk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(scripted_model([
            # Tools are announced with a <tool_call>; a system message has a token of its own.
            {"play": tokens_of(
                "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Köln 🦀</arg_value>"
                "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"),
             "when": [TAGS["<tool_call>"]]},
            {"play": tokens_of("It rains.</think>Take an umbrella."), "when": [TAGS["<think>"]]},
            {"play": tokens_of("<think>It rains.</think>Take an umbrella."), "when": [SYSTEM]},
            TEXT,
        ]))
        cls.server = cls.enterClassContext(Server(cls.folder, "--served-model-name", "mini"))
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="none", timeout=30,
                                   max_retries=0)

    def chat(self, text, **options):
        return self.client.chat.completions.create(
            model="mini", messages=[{"role": "user", "content": text}], **options)

    def test_a_chat_whole(self):
        answer = self.chat("hi")
        self.assertEqual(answer.choices[0].message.content, TEXT)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.completion_tokens, len(TEXT.encode()) + 1)  # and the end
        self.assertIsNotNone(answer.usage.prompt_tokens_details.cached_tokens)

    def test_a_chat_streamed(self):
        chunks = list(self.chat("hi", stream=True, stream_options={"include_usage": True}))
        content, _, _, finish = join_stream(chunks)
        self.assertEqual((content, finish), (TEXT, "stop"))
        self.assertEqual(chunks[-1].usage.completion_tokens, len(TEXT.encode()) + 1)
        self.assertGreater(len(chunks), 5)

    def test_reasoning_is_split_off(self):
        # The template closes the reasoning block and the model opens one of its own, or the
        # template leaves it open.
        closed = {"messages": [{"role": "system", "content": "x"},
                               {"role": "user", "content": "umbrella?"}]}
        opened = {"messages": [{"role": "user", "content": "umbrella?"}],
                  "extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}
        for request in (closed, opened):
            for stream in (False, True):
                answer = self.client.chat.completions.create(model="mini", stream=stream,
                                                             **request)
                if stream:
                    content, reasoning, _, _ = join_stream(answer)
                else:
                    message = answer.choices[0].message
                    content, reasoning = message.content, message.reasoning_content
                self.assertEqual((content, reasoning), ("Take an umbrella.", "It rains."))

    def test_a_tool_call(self):
        wanted = {"city": "Köln 🦀", "days": 3}
        answer = self.chat("Weather?", tools=[WEATHER])
        call = answer.choices[0].message.tool_calls[0]
        self.assertEqual(call.function.name, "get_weather")
        self.assertEqual(json.loads(call.function.arguments), wanted)
        self.assertEqual(answer.choices[0].finish_reason, "tool_calls")
        content, _, calls, finish = join_stream(self.chat("Weather?", tools=[WEATHER], stream=True))
        self.assertEqual((content, finish, list(calls)), ("", "tool_calls", [0]))
        self.assertEqual(calls[0]["name"], "get_weather")
        self.assertEqual(json.loads(calls[0]["arguments"]), wanted)
        # The call and its result go back as history.
        again = self.client.chat.completions.create(model="mini", messages=[
            {"role": "user", "content": "what now?"},
            answer.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "rain <|user|> & <b>"},
        ], tools=[WEATHER])
        self.assertEqual(again.choices[0].finish_reason, "tool_calls")

    def test_stop_logprobs_and_n(self):
        answer = self.chat("hi", stop=["world"], logprobs=True, top_logprobs=2)
        self.assertEqual(answer.choices[0].message.content, "Hello, ")
        first = answer.choices[0].logprobs.content[0]
        self.assertEqual((first.token, first.bytes), ("H", [72]))
        self.assertEqual(len(first.top_logprobs), 2)
        answer = self.chat("hi", n=3, max_tokens=4)
        self.assertEqual([c.message.content for c in answer.choices], ["Hell"] * 3)
        self.assertEqual({c.finish_reason for c in answer.choices}, {"length"})

    def test_completions(self):
        answer = self.client.completions.create(model="mini", prompt="hi", max_tokens=100)
        self.assertEqual(answer.choices[0].text, TEXT)
        text = "".join(chunk.choices[0].text for chunk in self.client.completions.create(
            model="mini", prompt="hi", max_tokens=100, stream=True) if chunk.choices)
        self.assertEqual(text, TEXT)
        echoed = self.client.completions.create(model="mini", prompt="hi", max_tokens=0,
                                                echo=True, logprobs=1)
        self.assertEqual(echoed.choices[0].text, "hi")
        self.assertIsNone(echoed.choices[0].logprobs.token_logprobs[0])

    def test_errors_become_exceptions(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model="gpt", messages=[
                {"role": "user", "content": "x"}])
        self.assertIn("mini", str(caught.exception))
        with self.assertRaises(openai.BadRequestError):
            self.chat("x", temperature=-1)

    def test_models(self):
        self.assertEqual(self.client.models.list().data[0].id, "mini")
        self.assertEqual(self.client.models.retrieve("mini").id, "mini")

    def test_prefixes_are_reused(self):
        prompt = "again and again " * 100
        first, second = self.chat(prompt).usage, self.chat(prompt).usage
        self.assertGreaterEqual(second.prompt_tokens_details.cached_tokens, 64)
        self.assertEqual(first.prompt_tokens, second.prompt_tokens)

    def test_curl(self):
        for stream in ("false", "true"):
            body = '{"messages":[{"role":"user","content":"hi"}],"stream":%s}' % stream
            done = subprocess.run(
                ["curl", "-sS", "-m", "20", "-i", self.server.url + "/v1/chat/completions",
                 "-d", body], capture_output=True, timeout=30)
            text = done.stdout.decode()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("x-request-id", text)
            self.assertIn("data: [DONE]" if stream == "true" else '"chat.completion"', text)

    def test_tokenize_and_back(self):
        status, tokens = self.server.post("/tokenize", {"prompt": TEXT,
                                                        "add_special_tokens": False})
        self.assertEqual(status, 200)
        self.assertEqual(self.server.post("/detokenize", {"tokens": tokens["tokens"]})[1]["prompt"],
                         TEXT)
        status, chat = self.server.post("/tokenize", {
            "messages": [{"role": "user", "content": "<|assistant|>"}]})
        self.assertEqual(status, 200)
        self.assertEqual(chat["tokens"].count(8180), 1, "typed markers stay text")


class TinyCheckpoints(unittest.TestCase):
    """Random weights: what is said does not matter, that it is the same does."""

    def check(self, name, *flags):
        with Server(ROOT / "testdata" / name, "--max-model-len", "512", *flags) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", timeout=60,
                                   max_retries=0)
            model = client.models.list().data[0].id
            options = {"model": model, "prompt": [5, 6, 7, 8, 9], "max_tokens": 12,
                       "temperature": 0, "extra_body": {"ignore_eos": True,
                                                        "return_token_ids": True}}
            whole = client.completions.create(**options)
            ids = whole.choices[0].token_ids
            self.assertEqual(len(ids), 12)
            streamed = []
            for chunk in client.completions.create(stream=True, **options):
                streamed += chunk.choices[0].token_ids or []
            self.assertEqual(streamed, ids)
            self.assertEqual(client.completions.create(**options).choices[0].token_ids, ids)
            chat = client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "hello"}], max_tokens=5,
                seed=1, temperature=1)
            self.assertLessEqual(chat.usage.completion_tokens, 5)

    def test_glm_dsa(self):
        self.check("glm-dsa-list")

    def test_qwen3(self):
        self.check("qwen3", "--kernels", "reference")


if __name__ == "__main__":
    unittest.main()
