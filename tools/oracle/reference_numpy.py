#!/usr/bin/env python3
"""A second, independent statement of the sigmoid-routed MLA family in float64 numpy, to check the oracle itself.

    python3 tools/oracle/reference_numpy.py testdata/glm-dsa-list [...]

Covers glm_moe_dsa, deepseek_v32, deepseek_v3 and glm4_moe_lite, written from the formulas (absorbed attention,
expert by expert), and prints the relative error of the stored logits and the selections that differ.
"""

import json
import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "convert"))
import quantize  # noqa: E402
import safetensors_file as stf  # noqa: E402

LATENT_EPS = 1e-6
INDEX_KEY_EPS = 1e-6


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def layer_norm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    return weight * centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + eps) + bias


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x, angles, attention_factor, interleaved):
    """Rotates [T, ..., 2n] by angles [T, n]; pairs are adjacent or half a head apart."""
    shape = (len(x),) + (1,) * (x.ndim - 2) + (-1,)
    cos, sin = (f(angles).reshape(shape) * attention_factor for f in (np.cos, np.sin))
    half = x.shape[-1] // 2
    first, second = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    out = np.empty_like(x)
    a, b = first * cos - second * sin, second * cos + first * sin
    if interleaved:
        out[..., 0::2], out[..., 1::2] = a, b
    else:
        out[..., :half], out[..., half:] = a, b
    return out


class Reference:
    """One checkpoint folder; `logits(ids)` is the whole forward pass."""

    def __init__(self, folder):
        with open(os.path.join(folder, "config.json")) as file:
            self.c = json.load(file)
        stored = stf.read_folder(folder)
        self.w = {}
        for name, tensor in stored.items():
            found = quantize.decode(name, stored)
            values = stf.to_float32(tensor) if found is None else found[0]
            self.w[name.replace(".weight_packed", ".weight")] = values.astype(np.float64)
        self.selected, self.scores = {}, {}
        self.read_rope()

    def read_rope(self):
        c, n = self.c, self.c["qk_rope_head_dim"]
        rope = dict(c.get("rope_parameters") or c.get("rope_scaling") or {})
        theta = rope.get("rope_theta", c.get("rope_theta"))
        frequency = theta ** (-np.arange(0, n, 2) / n)
        self.attention_factor, self.softmax_factor = 1.0, 1.0
        if rope.get("type", rope.get("rope_type", "default")) == "yarn":
            def bound(rotations):
                return n * math.log(rope["original_max_position_embeddings"] / (rotations * 2 * math.pi)) / (
                    2 * math.log(theta))
            low = max(math.floor(bound(rope["beta_fast"])), 0)
            high = min(math.ceil(bound(rope["beta_slow"])), n - 1)
            ramp = np.clip((np.arange(n // 2) - low) / max(high - low, 0.001), 0, 1)
            frequency = frequency / rope["factor"] * ramp + frequency * (1 - ramp)

            def mscale(x):
                return 0.1 * x * math.log(rope["factor"]) + 1
            self.attention_factor = mscale(rope["mscale"]) / mscale(rope["mscale_all_dim"])
            self.softmax_factor = mscale(rope["mscale_all_dim"]) ** 2
        self.frequency = frequency

    def indexer_types(self):
        c, layers = self.c, self.c["num_hidden_layers"]
        if "index_topk" not in c:
            return ["none"] * layers
        if c.get("indexer_types"):
            return c["indexer_types"]
        if c.get("index_topk_pattern"):
            return [{"F": "full", "S": "shared"}[x] for x in c["index_topk_pattern"]]
        frequency, offset = c.get("index_topk_freq", 1), c.get("index_skip_topk_offset", 2)
        return ["full" if max(i - offset + 1, 0) % frequency == 0 else "shared" for i in range(layers)]

    def select(self, stem, layer, x, q_latent, angles):
        """Boolean [T, T]: what the queries of this layer may attend to."""
        c, w, length = self.c, self.w, len(x)
        rope, heads, width = c["qk_rope_head_dim"], c["index_n_heads"], c["index_head_dim"]
        interleaved = c["model_type"] == "glm_moe_dsa"
        q = (q_latent @ w[stem + "wq_b.weight"].T).reshape(length, heads, width)
        k = layer_norm(x @ w[stem + "wk.weight"].T, w[stem + "k_norm.weight"], w[stem + "k_norm.bias"], INDEX_KEY_EPS)
        q[..., :rope] = rotate(q[..., :rope], angles, self.attention_factor, interleaved)
        k[..., :rope] = rotate(k[..., :rope], angles, self.attention_factor, interleaved)
        activation = np.maximum(np.einsum("qhd,td->qht", q, k) * width**-0.5, 0)
        head_weight = x @ w[stem + "weights_proj.weight"].T * heads**-0.5
        scores = np.einsum("qh,qht->qt", head_weight, activation)
        chosen = np.zeros((length, length), bool)
        for query in range(length):
            best = sorted(range(query + 1), key=lambda t: (-scores[query, t], t))
            chosen[query, best[: c["index_topk"]]] = True
        self.scores[layer], self.selected[layer] = scores, chosen
        return chosen

    def attention(self, stem, layer, x, kind, chosen):
        """(output [T, hidden], selection) with absorbed latent attention."""
        c, w, length = self.c, self.w, len(x)
        heads, nope, rope = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        value, rank = c["v_head_dim"], c["kv_lora_rank"]
        angles = np.arange(length)[:, None] * self.frequency
        q_latent = x
        q_weight = "q_proj.weight"
        if c.get("q_lora_rank"):
            q_latent = rms_norm(x @ w[stem + "q_a_proj.weight"].T, w[stem + "q_a_layernorm.weight"], LATENT_EPS)
            q_weight = "q_b_proj.weight"
        q = (q_latent @ w[stem + q_weight].T).reshape(length, heads, nope + rope)
        latent = x @ w[stem + "kv_a_proj_with_mqa.weight"].T
        key_rope = rotate(latent[:, rank:], angles, self.attention_factor, True)
        latent = rms_norm(latent[:, :rank], w[stem + "kv_a_layernorm.weight"], LATENT_EPS)
        q_rope = rotate(q[..., nope:], angles, self.attention_factor, True)
        up = w[stem + "kv_b_proj.weight"].reshape(heads, nope + value, rank)
        q_absorbed = np.einsum("qhn,hnr->qhr", q[..., :nope], up[:, :nope])
        scores = np.einsum("qhr,tr->hqt", q_absorbed, latent) + np.einsum("qhr,tr->hqt", q_rope, key_rope)
        scores *= (nope + rope) ** -0.5 * self.softmax_factor
        if kind == "full":
            chosen = self.select(stem + "indexer.", layer, x, q_latent, angles)
        allowed = np.tril(np.ones((length, length), bool)) if kind == "none" else chosen
        scores = np.where(allowed, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hqt,tr->qhr", weights, latent)
        out = np.einsum("qhr,hvr->qhv", mixed, up[:, nope:]).reshape(length, heads * value)
        return out @ w[stem + "o_proj.weight"].T, chosen

    def feed_forward(self, stem, x):
        w = self.w
        gate, up, down = (w[f"{stem}{part}_proj.weight"] for part in ("gate", "up", "down"))
        return (silu(x @ gate.T) * (x @ up.T)) @ down.T

    def experts(self, stem, x):
        c, w = self.c, self.w
        scores = 1 / (1 + np.exp(-(x @ w[stem + "gate.weight"].T)))
        choice = scores + w[stem + "gate.e_score_correction_bias"]
        out = self.feed_forward(stem + "shared_experts.", x)
        size = c["n_routed_experts"] // c["n_group"]
        for token in range(len(x)):
            groups = np.sort(choice[token].reshape(c["n_group"], size), -1)[:, -2:].sum(-1)
            kept = np.argsort(-groups)[: c["topk_group"]]
            candidates = [e for e in range(c["n_routed_experts"]) if e // size in kept]
            best = sorted(candidates, key=lambda e: -choice[token, e])[: c["num_experts_per_tok"]]
            total = sum(scores[token, e] for e in best) + 1e-20 if c["norm_topk_prob"] else 1
            for e in best:
                weight = scores[token, e] / total * c["routed_scaling_factor"]
                out[token] += weight * self.feed_forward(f"{stem}experts.{e}.", x[token])
        return out

    def logits(self, ids):
        c, w = self.c, self.w
        hidden, chosen, eps = w["model.embed_tokens.weight"][ids], None, c["rms_norm_eps"]
        for layer, kind in enumerate(self.indexer_types()):
            stem = f"model.layers.{layer}."
            x = rms_norm(hidden, w[stem + "input_layernorm.weight"], eps)
            out, chosen = self.attention(stem + "self_attn.", layer, x, kind, chosen)
            hidden = hidden + out
            x = rms_norm(hidden, w[stem + "post_attention_layernorm.weight"], eps)
            dense = stem + "mlp.gate.weight" not in w
            hidden = hidden + (self.feed_forward if dense else self.experts)(stem + "mlp.", x)
        return rms_norm(hidden, w["model.norm.weight"], eps) @ w["lm_head.weight"].T


def check(folder):
    golden = stf.read(os.path.join(folder, "golden.safetensors"))
    reference = Reference(folder)
    logits = reference.logits(golden["input_ids"].bits)
    want = golden["logits"].bits
    error = np.linalg.norm(logits - want) / np.linalg.norm(want)
    different, score_error = 0, 0.0
    for layer, chosen in reference.selected.items():
        stored = golden[f"index.{layer}.topk"].bits
        for query, row in enumerate(stored):
            different += set(np.flatnonzero(chosen[query])) != set(row[row >= 0])
        if f"index.{layer}.scores" in golden:
            stored = golden[f"index.{layer}.scores"].bits
            visible = np.isfinite(stored)
            gap = reference.scores[layer][visible] - stored[visible]
            score_error = max(score_error, np.linalg.norm(gap) / np.linalg.norm(stored[visible]))
    print(f"{folder}: logits relative error {error:.2e}, index scores {score_error:.2e}, "
          f"selections that differ {different}")
    return error < 1e-5 and not different


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(0 if all([check(folder) for folder in sys.argv[1:]]) else 1)
