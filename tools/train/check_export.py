"""Compares an exported folder, loaded by transformers, with the training model on the same tokens.

    check_export.py WEIGHTS MODEL_DIR [tokens]

More tokens than index_topk, so that the selection matters. Exits with 1 if the logits differ.
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
    worst = (a - b).abs().max().item()
    agree = (a.argmax(-1) == b.argmax(-1)).float().mean().item()
    print(f"largest difference {worst:.2e}, same arg-max {agree:.4f}, effect of the selection {(a - dense).abs().max().item():.2e}")
    sys.exit(0 if worst < 2e-3 else 1)


if __name__ == "__main__":
    main()
