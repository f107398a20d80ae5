"""The binary as tests use it: model folders, a server on a free port, a run to its end."""
import contextlib
import http.client
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BATON = os.environ.get("BATON", str(ROOT / "build/release/baton"))
MINI = ROOT / "models/baton-mini"
EOS = 8175
SYSTEM = 8178  # <|system|>
TAGS = {"<think>": 8182, "</think>": 8183, "<tool_call>": 8184, "</tool_call>": 8185,
        "<arg_key>": 8188, "</arg_key>": 8189, "<arg_value>": 8190, "</arg_value>": 8191}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def byte_alphabet():
    """GPT-2's character for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (chr(256 + extra) for extra in range(256))
    return [chr(byte) if byte in printable else next(others) for byte in range(256)]


def byte_token_ids():
    """The token of each byte in the shipped tokenizer."""
    vocab = json.loads((MINI / "tokenizer.json").read_text())["model"]["vocab"]
    return [vocab[character] for character in byte_alphabet()]


def write_byte_tokenizer(folder):
    """tokenizer.json of 256 tokens, one for each byte."""
    folder.joinpath("tokenizer.json").write_text(json.dumps({
        "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "post_processor": None, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(byte_alphabet())}, "merges": []}}))


def tokens_of(text):
    """Text as byte tokens, with the tags of the output format as their own tokens."""
    ids, byte_ids = [], byte_token_ids()
    while text:
        for tag, token in TAGS.items():
            if text.startswith(tag):
                ids.append(token)
                text = text[len(tag):]
                break
        else:
            ids += [byte_ids[byte] for byte in text[0].encode()]
            text = text[1:]
    return ids


@contextlib.contextmanager
def scripted_model(scripts, **config):
    """A folder of the scripted kind with the shipped tokenizer and template."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="baton_scripted_"))
    try:
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(MINI / name, folder / name)
        folder.joinpath("config.json").write_text(json.dumps({
            "model_type": "scripted", "vocab_size": 8192, "max_position_embeddings": 2048,
            "eos_token_id": EOS, "byte_token_ids": byte_token_ids(), "scripts": scripts,
            **config}))
        yield folder
    finally:
        shutil.rmtree(folder)


def wait_until(condition, seconds=5.0):
    deadline = time.time() + seconds
    while time.time() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Server:
    """`baton serve` on a loopback port of its own."""

    def __init__(self, model, *flags, wait=True, env=None, limits=None):
        self.port = free_port()
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [BATON, "serve", str(model), "--host", "127.0.0.1", "--port", str(self.port), *flags],
            stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})},
            preexec_fn=limits and (lambda: resource.setrlimit(*limits)))
        if wait:
            self.wait_until_ready()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def wait_until_ready(self, seconds=90):
        deadline = time.time() + seconds
        while time.time() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"baton ended with {self.process.returncode}: {self.text()}")
            with contextlib.suppress(OSError):
                if self.get("/ready")[0] == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"not ready after {seconds} s: {self.text()}")

    def text(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def request(self, method, path, body=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
            kind = answer.getheader("content-type", "")
            return answer.status, json.loads(text) if kind.startswith("application/json") else text
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path, timeout=5)

    def post(self, path, body):
        return self.request("POST", path, body)

    def metric(self, name):
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + "{"):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def run(*arguments, timeout=60, env=None, stdin=None, address_space=None):
    """Runs a verb to its end: exit code, standard output, standard error."""
    limit = address_space and (lambda: resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space)))
    done = subprocess.run([BATON, *map(str, arguments)], capture_output=True, timeout=timeout,
                          env={**os.environ, **(env or {})}, input=stdin, preexec_fn=limit)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode(
        "utf-8", "replace")
