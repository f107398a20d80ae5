"""A minimal client for OpenAI-compatible servers: urllib only, temperature 0, clear errors."""

import json
import sys
import time
import urllib.error
import urllib.request


class Endpoint:
    def __init__(self, url, model=None, api_key=None, timeout_s=600):
        self.url = url.rstrip("/")
        if not self.url.endswith("/v1"):
            self.url += "/v1"
        self.headers = {"Content-Type": "application/json"}
        if api_key:
            self.headers["Authorization"] = f"Bearer {api_key}"
        self.timeout_s = timeout_s
        self.model = model or self._send("/models")["data"][0]["id"]

    def _send(self, path, body=None):
        request = urllib.request.Request(self.url + path, headers=self.headers,
                                         data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            sys.exit(f"{self.url}{path}: HTTP {error.code}: {error.read()[:300].decode(errors='replace')}")

    def chat(self, messages, max_tokens, tools=None):
        """(message, usage) of a greedy chat completion without thinking."""
        body = {"model": self.model, "messages": messages, "max_tokens": max_tokens, "temperature": 0,
                "chat_template_kwargs": {"enable_thinking": False}}
        if tools:
            body["tools"] = tools
        answer = self._send("/chat/completions", body)
        return answer["choices"][0]["message"], answer.get("usage") or {}

    def complete(self, prompt, max_tokens, stop=None):
        """(text, usage) of a greedy raw completion."""
        body = {"model": self.model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
        if stop:
            body["stop"] = stop
        answer = self._send("/completions", body)
        return answer["choices"][0]["text"], answer.get("usage") or {}


def add_arguments(parser):
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="base URL of the server")
    parser.add_argument("--model", help="model name; the first one listed by the server if absent")
    parser.add_argument("--api-key")
    parser.add_argument("--out", help="write the result as JSON here")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout-s", type=float, default=600)


def connect(args):
    try:
        return Endpoint(args.url, args.model, args.api_key, args.timeout_s)
    except (OSError, KeyError, IndexError) as problem:
        sys.exit(f"no OpenAI-compatible server at {args.url}: {problem}")


def finish(args, name, endpoint, result, began):
    result = {"evaluation": name, "model": endpoint.model, "url": args.url, "seed": args.seed,
              "seconds": round(time.time() - began, 1), **result}
    if args.out:
        with open(args.out, "w") as f:
            json.dump(result, f, indent=1, ensure_ascii=False)
            f.write("\n")
    return result
