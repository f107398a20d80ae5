"""Exact citation across long documents, against an OpenAI-compatible server.

    crossref.py --url http://127.0.0.1:8000 --lengths 8192,32768,131072

A document is a repository in miniature: files that define constants, functions and terms, and refer to
definitions of files far before them. Questions ask for the exact text of a definition, or for the one
that a later line refers to; hops = 1 or 2. Prints exact citations per length and hop count.
"""

import argparse
import random
import time

import endpoint
import needles

MAX_ANSWER_TOKENS = 32


def make_repository(seed, n_chars, n_definitions):
    """(text, questions): questions are (question, answer, hops, distance in characters).

    Definitions lie in the first two thirds; each has a reference at least a tenth of the document
    later. A two-hop question names an alias that a later file binds to an earlier definition.
    """
    rng = random.Random(seed)
    filler = needles.haystack_lines(rng, n_chars)
    definitions = [needles.make_needle(rng, rng.random() * 0.66, ("code", "signature")) for _ in range(n_definitions)]
    inserts = [(d.depth, d.statement.rstrip("\n")) for d in definitions]
    questions = []
    for i, d in enumerate(definitions):
        place = d.depth + 0.1 + rng.random() * (0.9 - d.depth)
        if d.kind == "code" and i % 2 == 0:
            alias = needles.random_key(rng, "code")
            inserts.append((min(place, 0.99), f"{alias} = {d.key}"))
            questions.append((f"What is the value of {alias}?", d.value, 2, int((1 - d.depth) * n_chars)))
        else:
            inserts.append((min(place, 0.99), f"# see {d.key}"))
            ask = "What are the parameters of" if d.kind == "signature" else "What is the value of"
            questions.append((f"{ask} {d.key}?", d.value, 1, int((1 - d.depth) * n_chars)))
    n_lines = len(filler)
    for depth, line in sorted(inserts, key=lambda x: x[0], reverse=True):
        filler.insert(int(depth * n_lines), line)
    lines = []
    for i, line in enumerate(filler):
        if i % 120 == 0:
            lines.append(f"# file: src/{rng.choice(needles.WORDS)}/{rng.choice(needles.WORDS)}.py")
        lines.append(line)
    return "\n".join(lines) + "\n", questions


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    endpoint.add_arguments(parser)
    parser.add_argument("--lengths", default="8192,32768,131072", help="8192 to 524288 tokens, about")
    parser.add_argument("--docs", type=int, default=1)
    parser.add_argument("--definitions", type=int, default=24)
    parser.add_argument("--chars-per-token", type=float, default=3.5)
    args = parser.parse_args()
    server, began, table = endpoint.connect(args), time.time(), {}
    print("length   prompt tokens   one hop   two hops")
    for length in (int(x) for x in args.lengths.split(",")):
        hits, tokens, misses = {1: [], 2: []}, [], []
        for d in range(args.docs):
            text, questions = make_repository(args.seed * 7919 + length + d, int(length * args.chars_per_token), args.definitions)
            for question, answer, hops, distance in questions:
                message, usage = server.chat([{"role": "user", "content": text + question}], MAX_ANSWER_TOKENS)
                got = (message.get("content") or "").strip()
                hits[hops].append(got == answer)
                tokens.append(usage.get("prompt_tokens", 0))
                if got != answer:
                    misses.append({"question": question, "expected": answer, "got": got, "hops": hops, "distance": distance})
        share = {h: round(sum(x) / len(x), 4) if x else None for h, x in hits.items()}
        table[length] = {"one_hop": share[1], "two_hops": share[2], "questions": sum(map(len, hits.values())),
                         "prompt_tokens": round(sum(tokens) / max(1, len(tokens))), "misses": misses[:20]}
        print(f"{length:6d}   {table[length]['prompt_tokens']:13d}   {share[1]}   {share[2]}", flush=True)
    endpoint.finish(args, "crossref", server, {"lengths": table}, began)


if __name__ == "__main__":
    main()
