#!/usr/bin/env python3
"""Makes testdata/rope: cos and sin of the rotary module of transformers, up to a million positions.

    python3 tools/oracle/make_rope_tables.py [--out testdata]

transformers multiplies the float32 inverse frequency by the float32 position and takes cos and sin of that rounded
angle; at position 1e6 a float64 angle gives visibly other values. Each case is one call, because `dynamic` and
`longrope` look at the largest position of the call.
"""

import argparse
import json
import os
import sys

import numpy as np
import torch
import transformers
from transformers import AutoConfig
from transformers.models.glm_moe_dsa.modeling_glm_moe_dsa import GlmMoeDsaRotaryEmbedding

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "convert"))
import safetensors_file as stf  # noqa: E402

NEAR = [0, 1, 2, 3, 17, 63, 64, 65, 255, 1023]
FAR = NEAR + [4095, 4096, 32767, 65536, 131071, 202751, 524287, 1000003, 1048575]
YARN = {"rope_type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32, "beta_slow": 1}
HALF = 16  # pairs of the longrope case

# name, rope width, max_position_embeddings, rope_parameters, positions
CASES = [
    ("default_8e6", 64, 1048576, {"rope_type": "default", "rope_theta": 8000000}, FAR),
    ("default_1e6", 128, 40960, {"rope_type": "default", "rope_theta": 1000000}, FAR),
    ("yarn_deepseek_v3", 64, 163840, {**YARN, "rope_theta": 10000, "mscale": 1.0, "mscale_all_dim": 1.0}, FAR),
    ("yarn_deepseek_v2", 64, 163840, {**YARN, "rope_theta": 10000, "mscale": 0.707, "mscale_all_dim": 0.707}, FAR),
    ("yarn_without_mscale", 64, 163840, {**YARN, "rope_theta": 10000}, FAR),
    ("yarn_unequal_mscale", 64, 163840, {**YARN, "rope_theta": 10000, "mscale": 1.0, "mscale_all_dim": 0.8}, FAR),
    ("yarn_attention_factor", 64, 163840, {**YARN, "rope_theta": 10000, "attention_factor": 1.25}, FAR),
    ("yarn_not_truncated", 64, 163840, {**YARN, "rope_theta": 10000, "truncate": False}, FAR),
    ("yarn_qwen3", 128, 131072, {"rope_type": "yarn", "rope_theta": 1000000, "factor": 4.0,
                                 "original_max_position_embeddings": 32768}, FAR),
    ("linear", 64, 16384, {"rope_type": "linear", "rope_theta": 10000, "factor": 4.0}, FAR),
    ("dynamic_below", 64, 2048, {"rope_type": "dynamic", "rope_theta": 10000, "factor": 2.0}, NEAR),
    ("dynamic_above", 64, 2048, {"rope_type": "dynamic", "rope_theta": 10000, "factor": 2.0}, NEAR + [4095, 8191]),
    ("llama3", 128, 131072, {"rope_type": "llama3", "rope_theta": 500000, "factor": 8.0, "low_freq_factor": 1.0,
                             "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}, FAR),
    ("longrope_below", 2 * HALF, 8192, {
        "rope_type": "longrope", "rope_theta": 10000, "original_max_position_embeddings": 2048, "factor": 4.0,
        "short_factor": [1 + 0.05 * i for i in range(HALF)], "long_factor": [1 + 0.5 * i for i in range(HALF)]}, NEAR),
    ("longrope_above", 2 * HALF, 8192, {
        "rope_type": "longrope", "rope_theta": 10000, "original_max_position_embeddings": 2048, "factor": 4.0,
        "short_factor": [1 + 0.05 * i for i in range(HALF)], "long_factor": [1 + 0.5 * i for i in range(HALF)]},
     NEAR + [2048, 4095]),
]


def run_case(width, limit, parameters, positions):
    """{"cos" [P, width/2], "sin", "inverse_frequencies" [width/2]} and the attention factor."""
    config = AutoConfig.for_model("glm_moe_dsa", num_hidden_layers=1, qk_rope_head_dim=width,
                                  max_position_embeddings=limit, rope_parameters=dict(parameters))
    rotary = GlmMoeDsaRotaryEmbedding(config)
    cos, sin = rotary(torch.zeros(1), torch.tensor([positions]))
    half = width // 2
    return {"cos": cos[0, :, :half].numpy(), "sin": sin[0, :, :half].numpy(),
            "inverse_frequencies": rotary.inv_freq.float().numpy(),
            "positions": np.array(positions, np.int32)}, float(rotary.attention_scaling)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata"))
    folder = os.path.join(parser.parse_args().out, "rope")
    os.makedirs(folder, exist_ok=True)
    transformers.logging.set_verbosity_error()
    tensors, cases = {}, []
    for name, width, limit, parameters, positions in CASES:
        found, factor = run_case(width, limit, parameters, positions)
        tensors.update({f"{name}.{k}": stf.plain(np.ascontiguousarray(v)) for k, v in found.items()})
        cases.append({"name": name, "qk_rope_head_dim": width, "max_position_embeddings": limit,
                      "rope_parameters": parameters, "attention_factor": factor})
    stf.write(os.path.join(folder, "golden.safetensors"), tensors)
    with open(os.path.join(folder, "golden.json"), "w", encoding="utf-8") as file:
        json.dump({"made_by": "tools/oracle/make_rope_tables.py", "torch": torch.__version__,
                   "transformers": transformers.__version__, "cases": cases}, file, indent=1)
        file.write("\n")
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
