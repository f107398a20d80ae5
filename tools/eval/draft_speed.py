"""Decoding with n-gram drafts beside decoding without, same prompts, greedy.

    python3 tools/eval/draft_speed.py [--rounds 3] [--decode 256] [--threads 1] [--device cuda --elapsed]

Two servers answer the same prompts in turn, so that what else runs on the machine meets both. A prompt
is a source file and its beginning once more: what an agent writes that gives a file back. Time is the
server's CPU time (`--elapsed`: the clock's) between the first token and the last, by the difference of
a request for all tokens and one for the first. Answers must be equal.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ["tools/eval/cpu_speed.py", "src/engine/token_stream.cpp", "src/scheduler/request.h"]


class Server:
    def __init__(self, args, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        self.process = subprocess.Popen(
            [args.binary, "serve", args.model, "--port", self.url.rsplit(":", 1)[1], "--cpu-threads",
             str(args.threads), "--device", args.device, "--kv-cache-tokens", "32768", "--max-model-len",
             "16384", "--log-level", "error", "--no-enable-prefix-caching", *flags])
        for _ in range(1200):
            with contextlib.suppress(OSError):
                if urllib.request.urlopen(self.url + "/ready", timeout=5).status == 200:
                    return
            time.sleep(0.1)
        raise SystemExit("the server did not become ready")

    def clock(self, elapsed):
        if elapsed:
            return time.perf_counter()
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def answer(self, prompt, count):
        body = {"prompt": prompt, "max_tokens": count, "temperature": 0, "ignore_eos": True,
                "return_token_ids": True}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode())
        return json.load(urllib.request.urlopen(request, timeout=600))["choices"][0]["token_ids"]

    def timed(self, prompt, count, elapsed):
        start = self.clock(elapsed)
        ids = self.answer(prompt, count)
        return self.clock(elapsed) - start, ids

    def metric(self, name):
        page = urllib.request.urlopen(self.url + "/metrics").read().decode()
        return float(re.search(rf"^vllm:{name}{{.*}} (.*)$", page, re.M).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", default=str(ROOT / "build/release/baton"))
    parser.add_argument("--model", default=str(ROOT / "models/baton-mini"))
    parser.add_argument("--drafts", default="4", help="num_speculative_tokens, comma separated")
    parser.add_argument("--decode", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--elapsed", action="store_true")
    args = parser.parse_args()
    texts = [(ROOT / name).read_text() for name in SOURCES]
    prompts = [text + "\n" + text[:len(text) // 8] for text in texts]
    settings = {"without": Server(args)}
    for drafts in args.drafts.split(","):
        settings[f"{drafts} drafts"] = Server(args, "--speculative-config", json.dumps(
            {"method": "ngram", "num_speculative_tokens": int(drafts), "prompt_lookup_max": 4,
             "prompt_lookup_min": 2}))
    try:
        for name, prompt in zip(SOURCES, prompts):
            measure(args, settings, name, prompt)
        for what, server in list(settings.items())[1:]:
            steps, drafted, accepted = (server.metric(f"spec_decode_num_{part}_total") for part in
                                        ("drafts", "draft_tokens", "accepted_tokens"))
            print(f"{what}: {accepted:.0f} of {drafted:.0f} accepted, in {steps:.0f} steps")
    finally:
        for server in settings.values():
            server.process.kill()


def measure(args, settings, name, prompt):
    times = {what: [] for what in settings}
    for _ in range(args.rounds):
        answers = []
        for what, server in settings.items():
            first, _ = server.timed(prompt, 1, args.elapsed)
            whole, ids = server.timed(prompt, args.decode, args.elapsed)
            times[what].append((whole - first) / (args.decode - 1) * 1e3)
            answers.append(ids)
        if any(ids != answers[0] for ids in answers):
            raise SystemExit(f"{name}: the answers differ")
    for what, values in times.items():
        print(f"{name:32} {what:10} {statistics.median(values):7.3f} ms per token (median of "
              f"{args.rounds}, {'elapsed' if args.elapsed else 'CPU'}), best {min(values):.3f}")


if __name__ == "__main__":
    main()
