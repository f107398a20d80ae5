"""Random weights under the tensor names that published checkpoints use on disk.

transformers holds experts fused; on disk they are one tensor per expert and projection. Each tensor draws from
its own generator, seeded by the checkpoint seed and its name, so adding a tensor changes no other.
"""

import copy
import os
import sys
import zlib

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "convert"))
import safetensors_file as stf  # noqa: E402

GAINS = {"q_b_proj.weight": 1.5, "q_proj.weight": 1.5, "wq_b.weight": 1.5, "gate.weight": 1.5,
         "down_proj.weight": 1.2, "lm_head.weight": 2.0}


def with_mtp_layer(config):
    """The config of a trunk that is one (full, sparse) layer longer: the shape of the MTP layer."""
    longer = copy.deepcopy(config)
    longer.num_hidden_layers += 1
    for name, kind in (("indexer_types", "full"), ("mlp_layer_types", "sparse")):
        if getattr(longer, name, None) is not None:
            setattr(longer, name, list(getattr(longer, name)) + [kind])
    if getattr(longer, "layer_types", None) is not None:
        longer.layer_types = list(longer.layer_types) + longer.layer_types[-1:]
    return longer


def disk_shapes(config, mtp):
    """Tensor name on disk -> shape, in layer order."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(with_mtp_layer(config) if mtp else config)
    shapes = {}
    for name, tensor in model.state_dict().items():
        shape = tuple(tensor.shape)
        if name.endswith("experts.gate_up_proj"):
            stem = name[: -len("gate_up_proj")]
            for expert in range(shape[0]):
                for part in ("gate_proj", "up_proj"):
                    shapes[f"{stem}{expert}.{part}.weight"] = (shape[1] // 2, shape[2])
        elif name.endswith("experts.down_proj"):
            stem = name[: -len("down_proj")]
            for expert in range(shape[0]):
                shapes[f"{stem}{expert}.down_proj.weight"] = shape[1:]
        elif not (name == "lm_head.weight" and config.tie_word_embeddings):
            shapes[name] = shape
    if mtp:
        stem, hidden = f"model.layers.{config.num_hidden_layers}.", config.hidden_size
        shapes.update({stem + "enorm.weight": (hidden,), stem + "hnorm.weight": (hidden,),
                       stem + "eh_proj.weight": (hidden, 2 * hidden),
                       stem + "shared_head.norm.weight": (hidden,)})
        if config.model_type != "glm_moe_dsa":  # DeepSeek stores copies of the trunk's tables, GLM does not
            shapes.update({stem + "embed_tokens.weight": (config.vocab_size, hidden),
                           stem + "shared_head.head.weight": (config.vocab_size, hidden)})
    return shapes


def draw(name, shape, seed, checkpoint, config):
    """One float32 tensor; scales keep activations near 1 and logits spread by a few units."""
    normal = np.random.default_rng([seed, zlib.crc32(name.encode())]).standard_normal(shape)
    if name.endswith("e_score_correction_bias"):
        values = checkpoint.bias_offset + 0.6 * normal
    elif name.endswith("norm.bias"):
        values = 0.3 * normal
    elif len(shape) == 1:
        values = 1 + 0.3 * normal
    elif name.endswith("embed_tokens.weight"):
        values = normal
    else:
        gain = next((g for suffix, g in GAINS.items() if name.endswith(suffix)), 1.0)
        values = normal * gain / np.sqrt(shape[-1])
    for suffix, factor in checkpoint.scales.items():
        if suffix == "kv_a_proj_with_mqa.latent" and "kv_a_proj_with_mqa" in name:
            values[: config.kv_lora_rank] *= factor
        elif name.endswith(suffix):
            values = values * factor
    return values.astype(np.float32)


def encode(values, storage):
    if storage == "BF16":
        return stf.to_bfloat16(values)
    return stf.plain(values.astype(np.float16 if storage == "F16" else np.float32))


def make(checkpoint, folder, seed):
    """All tensors of a checkpoint, name -> stored Tensor. The router bias stays float32, as published."""
    config = AutoConfig.from_pretrained(folder)
    tensors = {}
    for name, shape in disk_shapes(config, checkpoint.mtp).items():
        storage = "F32" if name.endswith("e_score_correction_bias") else checkpoint.storage
        tensors[name] = encode(draw(name, shape, seed, checkpoint, config), storage)
    stem = f"model.layers.{config.num_hidden_layers}."
    for copied, source in ((stem + "embed_tokens.weight", "model.embed_tokens.weight"),
                           (stem + "shared_head.head.weight", "lm_head.weight")):
        if copied in tensors:
            tensors[copied] = tensors[source]
    return tensors
