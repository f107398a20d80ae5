"""Recall over length and depth against an OpenAI-compatible server.

    recall.py --url http://127.0.0.1:8000 --lengths 2048,8192,32768 --docs 2 --needles 20

One document per (length, number) hides one fact in each of `--needles` slices; every fact is asked
for in its own request, so that a server with a prefix cache reads the document once. An answer
counts when it equals the value exactly. `--raw` asks through /v1/completions by repeating a statement up to its
value. Prints exact recall per length and depth; `--out` writes JSON. `--fail-below` makes it a gate.
"""

import argparse
import json
import sys
import time

import endpoint
import needles

MAX_ANSWER_TOKENS = 24


def is_exact(answer, needle):
    return answer.strip() == needle.value


def is_exact_raw(text, needle):
    """A raw continuation goes on after the value; it must open with it and not continue the word."""
    text = text.lstrip(" (")
    rest = text[len(needle.value):]
    return text.startswith(needle.value) and not (rest[:1].isalnum() and needle.value[-1:].isalnum())


def measure(server, length, docs, n_needles, seed, chars_per_token, raw, kinds,
            placement="word"):
    """Rows (depth, kind, exact) and the mean prompt tokens the server reports."""
    rows, prompt_tokens, misses = [], [], []
    for d in range(docs):
        text, hidden = needles.make_document(seed * 1_000_003 + length * 101 + d, int(length * chars_per_token), n_needles,
                                              kinds, placement)
        for needle in hidden:
            if raw:
                answer, usage = server.complete(text + needle.raw_prompt, MAX_ANSWER_TOKENS)
                exact = is_exact_raw(answer, needle)
            else:
                message, usage = server.chat([{"role": "user", "content": text + needle.question}], MAX_ANSWER_TOKENS)
                answer = message.get("content") or ""
                exact = is_exact(answer, needle)
            rows.append((needle.depth, needle.kind, exact))
            prompt_tokens.append(usage.get("prompt_tokens", 0))
            if not exact:
                misses.append({"question": needle.question, "expected": needle.value, "got": answer, "depth": round(needle.depth, 3)})
    return rows, sum(prompt_tokens) / max(1, len(prompt_tokens)), misses


def summarise(rows, bins):
    share = lambda picked: round(sum(picked) / len(picked), 4) if picked else None
    return {"exact": share([e for _, _, e in rows]), "questions": len(rows),
            "by_depth": [share([e for d, _, e in rows if min(bins - 1, int(d * bins)) == b]) for b in range(bins)],
            "by_kind": {k: share([e for _, kind, e in rows if kind == k]) for k in sorted({k for _, k, _ in rows})}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    endpoint.add_arguments(parser)
    parser.add_argument("--lengths", default="2048,8192,32768", help="context lengths in tokens, about")
    parser.add_argument("--docs", type=int, default=2, help="documents per length")
    parser.add_argument("--needles", type=int, default=20, help="facts per document")
    parser.add_argument("--kinds", default=",".join(needles.KINDS))
    parser.add_argument("--chars-per-token", type=float, default=3.5)
    parser.add_argument("--depth-bins", type=int, default=5)
    parser.add_argument("--placement", choices=("word", "any"), default="word",
                        help="facts only after lines that end in a letter or digit, or after any line")
    parser.add_argument("--raw", action="store_true", help="use /v1/completions")
    parser.add_argument("--fail-below", type=float, help="exit with 1 if any length recalls less")
    args = parser.parse_args()
    server, began, table = endpoint.connect(args), time.time(), {}
    print("length   prompt tokens   exact   by depth (start to end)")
    for length in (int(x) for x in args.lengths.split(",")):
        rows, tokens, misses = measure(server, length, args.docs, args.needles, args.seed, args.chars_per_token, args.raw,
                                       tuple(args.kinds.split(",")), args.placement)
        entry = table[length] = {**summarise(rows, args.depth_bins), "prompt_tokens": round(tokens), "misses": misses[:20]}
        print(f"{length:6d}   {tokens:13.0f}   {entry['exact']:.3f}   {entry['by_depth']}", flush=True)
    endpoint.finish(args, "recall", server, {"raw": args.raw, "lengths": table}, began)
    if args.fail_below is not None and any(e["exact"] < args.fail_below for e in table.values()):
        sys.exit(f"recall below {args.fail_below}: " + json.dumps({k: e["exact"] for k, e in table.items()}))


if __name__ == "__main__":
    main()
