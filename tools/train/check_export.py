"""Compares an exported folder, loaded by transformers, with the training model on the same tokens.

    check_export.py WEIGHTS MODEL_DIR [tokens]

More tokens than index_topk, so that the selection matters. Index scores tie exactly where every head's
relu is zero, and at the cut the two may then keep different tokens: up to one position in fifty may differ by
more than rounding. Exits with 1 if more do, or if an arg-max differs.
"""

import sys

import torch
from transformers import AutoTokenizer, GlmMoeDsaForCausalLM

from export import load_weights
from model import Config, Mode, Model, linear


def main():
    weights, folder = sys.argv[1], sys.argv[2]
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 600
    ours = Model(Config.load(f"{folder}/config.json")).eval()
    ours.load_state_dict(load_weights(weights))
    theirs = GlmMoeDsaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    # The exported weights are bf16: round ours alike.
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(parameter.bfloat16().float())
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = open(__file__).read() * 20
    ids = torch.tensor(tokenizer(text).input_ids[:n])[None]
    with torch.no_grad():
        hidden, _ = ours.trunk(ids, torch.arange(n)[None], Mode(torch.float32, sparse=True))
        a = linear(hidden, ours.lm_head)
        b = theirs(ids).logits[0]
        dense = linear(ours.trunk(ids, torch.arange(n)[None], Mode(torch.float32))[0], ours.lm_head)
    by_position = (a - b).abs().amax(-1)
    worst, apart = by_position.max().item(), (by_position > 1e-4).float().mean().item()
    agree = (a.argmax(-1) == b.argmax(-1)).float().mean().item()
    print(f"largest difference {worst:.2e}, above 1e-4 at {apart:.4f} of positions, same arg-max {agree:.4f}, effect of the selection {(a - dense).abs().max().item():.2e}")
    sys.exit(0 if apart <= 0.02 and agree == 1 else 1)


if __name__ == "__main__":
    main()
