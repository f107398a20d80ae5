"""Writes trained weights as a Hugging Face `glm_moe_dsa` folder: two bf16 shards and their index.

    export.py WEIGHTS MODEL_DIR     WEIGHTS: last.pt, or a folder with part0.pt ... from train.py

MODEL_DIR already holds config.json and the tokenizer. Shared layers are written without indexer;
the multi-token-prediction layer follows the trunk as layer `num_hidden_layers`, without copies of the
embedding and the head.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

from model import Config

# Our name -> name inside a layer.
ATTENTION = {
    "input_norm": "input_layernorm", "post_norm": "post_attention_layernorm",
    "q_a": "self_attn.q_a_proj", "q_a_norm": "self_attn.q_a_layernorm", "q_b": "self_attn.q_b_proj",
    "kv_a": "self_attn.kv_a_proj_with_mqa", "kv_a_norm": "self_attn.kv_a_layernorm",
    "kv_b": "self_attn.kv_b_proj", "o": "self_attn.o_proj",
}
INDEXER = {
    "wq_b": "self_attn.indexer.wq_b.weight", "wk": "self_attn.indexer.wk.weight",
    "k_norm_w": "self_attn.indexer.k_norm.weight", "k_norm_b": "self_attn.indexer.k_norm.bias",
    "weights_proj": "self_attn.indexer.weights_proj.weight",
}
MLP = {
    "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj", "router": "mlp.gate",
    "shared_gate": "mlp.shared_experts.gate_proj", "shared_up": "mlp.shared_experts.up_proj",
    "shared_down": "mlp.shared_experts.down_proj",
}
EXPERTS = {"experts_gate": "gate_proj", "experts_up": "up_proj", "experts_down": "down_proj"}


def load_weights(path):
    path = pathlib.Path(path)
    if path.is_dir():
        state = {}
        for part in sorted(path.glob("part*.pt")):
            state.update(torch.load(part, map_location="cpu"))
        return state
    return torch.load(path, map_location="cpu")["model"]


def layer_tensors(state, prefix, target, with_indexer):
    for name, tensor in ((n[len(prefix):], t) for n, t in state.items() if n.startswith(prefix)):
        if name in ATTENTION:
            yield f"{target}{ATTENTION[name]}.weight", tensor
        elif name in INDEXER:
            if with_indexer:
                yield target + INDEXER[name], tensor
        elif name in MLP:
            yield f"{target}{MLP[name]}.weight", tensor
        elif name == "router_bias":
            yield target + "mlp.gate.e_score_correction_bias", tensor
        elif name in EXPERTS:
            for e, expert in enumerate(tensor):
                yield f"{target}mlp.experts.{e}.{EXPERTS[name]}.weight", expert
        else:
            raise ValueError(f"no place for tensor {prefix}{name}")


def checkpoint(state, config):
    """All tensors of the exported folder, in layer order."""
    out = {"model.embed_tokens.weight": state["embed"]}
    for i, kind in enumerate(config.indexer_types):
        out.update(layer_tensors(state, f"layers.{i}.", f"model.layers.{i}.", kind == "full"))
    out["model.norm.weight"] = state["norm"]
    out["lm_head.weight"] = state["lm_head"]
    mtp = f"model.layers.{config.num_hidden_layers}."
    out.update(layer_tensors(state, "mtp_layer.", mtp, True))
    for ours, theirs in (("enorm", "enorm"), ("hnorm", "hnorm"), ("eh_proj", "eh_proj"), ("mtp_norm", "shared_head.norm")):
        out[f"{mtp}{theirs}.weight"] = state[ours]
    return {n: t.float().contiguous() if n.endswith("e_score_correction_bias") else t.bfloat16().contiguous()
            for n, t in out.items()}


def main():
    folder = pathlib.Path(sys.argv[2])
    tensors = checkpoint(load_weights(sys.argv[1]), Config.load(folder / "config.json"))
    size = lambda t: t.numel() * t.element_size()
    total, at, shards = sum(map(size, tensors.values())), 0, [{}, {}]
    for name, tensor in tensors.items():
        shards[0 if at < total / 2 else 1][name] = tensor
        at += size(tensor)
    weight_map = {}
    for i, shard in enumerate(shards, start=1):
        file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map.update({name: file for name in shard})
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    print(f"{len(tensors)} tensors, {total / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
