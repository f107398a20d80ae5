"""Greedy tokens of a server against transformers, prompt by prompt.

    parity.py MODEL_DIR --url http://127.0.0.1:8000 [--prompts 50] [--tokens 24] [--dtype float32]

Prompts are windows of standard-library source of growing length, most of them longer than index_topk.
Needs torch and transformers. The server computes in its own precision, so where the two texts part, the
margin between transformers' two best logits is printed: a parting at a near tie is rounding, not an error.
Exits with 1 if a prompt parts at a margin above `--margin`.
"""

import argparse
import random
import sys
import time

import torch
from transformers import AutoTokenizer, GlmMoeDsaForCausalLM

import endpoint
import needles


def greedy(model, ids, n, eos):
    """The greedy continuation of ids [1, T] and the margin of the two best logits at every step."""
    out, margins, past = [], [], None
    for _ in range(n):
        result = model(ids if past is None else ids[:, -1:], past_key_values=past, use_cache=True)
        past = result.past_key_values
        best = result.logits[0, -1].float().topk(2)
        out.append(int(best.indices[0]))
        margins.append(float(best.values[0] - best.values[1]))
        if out[-1] in eos:
            break
        ids = torch.cat([ids, best.indices[:1][None]], 1)
    return out, margins


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    endpoint.add_arguments(parser)
    parser.add_argument("model_dir")
    parser.add_argument("--prompts", type=int, default=50)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--margin", type=float, default=0.25)
    args = parser.parse_args()
    server, began, rng = endpoint.connect(args), time.time(), random.Random(args.seed)
    tokenizer = AutoTokenizer.from_pretrained(args.model_dir)
    model = GlmMoeDsaForCausalLM.from_pretrained(args.model_dir, dtype=getattr(torch, args.dtype)).eval()
    eos = set(model.generation_config.eos_token_id)
    same, partings = 0, []
    for i in range(args.prompts):
        prompt = "\n".join(needles.haystack_lines(rng, 200 + 60 * i)) + "\n"
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        with torch.no_grad():
            expected, margins = greedy(model, ids, args.tokens, eos)
        text, usage = server.complete(prompt, args.tokens)
        got = tokenizer(text, add_special_tokens=False).input_ids
        expected_text = tokenizer.decode([t for t in expected if t not in eos])
        if text == expected_text:
            same += 1
            continue
        at = next((j for j, (a, b) in enumerate(zip(expected, got)) if a != b), min(len(expected), len(got)))
        partings.append({"prompt_tokens": ids.shape[1], "at": at, "margin": round(margins[min(at, len(margins) - 1)], 4)})
        print(f"prompt {i} ({ids.shape[1]} tokens, server saw {usage.get('prompt_tokens')}) parts at token {at}, "
              f"margin {partings[-1]['margin']}", flush=True)
    print(f"{same} of {args.prompts} prompts give the same {args.tokens} greedy tokens")
    endpoint.finish(args, "parity", server, {"same": same, "prompts": args.prompts, "partings": partings}, began)
    if any(p["margin"] > args.margin for p in partings):
        sys.exit(1)


if __name__ == "__main__":
    main()
