#!/usr/bin/env python3
"""Checks the assembled MTP goldens of testdata/deepseek-v3-yarn against the MTP module of transformers 5.17.

    python3 tools/oracle/check_mtp.py

transformers runs MTP layers for deepseek_v3 only (glm_moe_dsa configs lack what it asks for), and knows the layer of
the published model (61), so the pattern is pointed at the tiny one. Its positions are those of the token, one
more than ours; RoPE is relative, so both must agree.
"""

import os
import sys

import numpy as np
import torch
import transformers
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

import golden_runs as runs
from random_weights import stf

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata", "deepseek-v3-yarn")


def main():
    transformers.logging.set_verbosity_error()
    trunk = runs.load(FOLDER, torch.float32, "model.layers.4.")
    trunk._keys_to_ignore_on_load_unexpected = [r"model\.layers\.4\..*"]
    mtp = MtpModel.from_pretrained(trunk).eval()
    golden = {name: tensor.bits for name, tensor in stf.read(os.path.join(FOLDER, "golden.safetensors")).items()}
    ids, want = golden["input_ids"].tolist(), golden["mtp.own.draft_logits"][0]
    with torch.no_grad():
        hidden = trunk.model(input_ids=torch.tensor([ids])).last_hidden_state
        shifted = torch.tensor([ids[1:] + golden["mtp.next_token"].tolist()])
        for first in (0, 1):
            positions = torch.arange(first, first + len(ids))[None]
            cache = MtpCache(config=trunk.config.get_mtp_config())
            _, logits, _ = mtp(shifted, hidden, torch.ones_like(shifted), positions, cache)
            error = np.linalg.norm(logits[0, 0].numpy() - want) / np.linalg.norm(want)
            print(f"first position {first}: relative error {error:.1e}")
            if error > 1e-5:
                sys.exit("MTP goldens disagree with transformers")


if __name__ == "__main__":
    main()
