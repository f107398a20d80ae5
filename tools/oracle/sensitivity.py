#!/usr/bin/env python3
"""Shows that the goldens can fail: applies well-known mistakes to the float64 reference and prints the damage.

    python3 tools/oracle/sensitivity.py [testdata]

Each mistake is one that an engine has made. A mistake that moves the logits of its checkpoint by less than 1e-3 would
slip through a parity test, so the command fails on it.
"""

import os
import sys

import numpy as np

import reference_numpy as ref
from reference_numpy import Reference, stf


def with_config(**changes):
    """A mistake that reads the config differently."""
    def apply(reference):
        reference.c.update(changes)
        reference.read_rope()
    return apply


def indexer_half_split(reference):
    original = ref.rotate

    def select(stem, layer, x, q_latent, angles):
        def rotate(values, angle, factor, interleaved):
            return original(values, angle, factor, not interleaved)
        ref.rotate = rotate
        try:
            return Reference.select(reference, stem, layer, x, q_latent, angles)
        finally:
            ref.rotate = original
    reference.select = select


def dense(reference):
    reference.select = lambda stem, layer, x, q, angles: np.tril(np.ones((len(x), len(x)), bool))


def first_sharing_rule(reference):
    count = reference.c["num_hidden_layers"]
    every = reference.c["index_topk_freq"]
    reference.indexer_types = lambda: ["full" if i == 0 or (i - 1) % every == 0 else "shared" for i in range(count)]


def key_norm_as_rms(reference):
    def select(stem, layer, x, q_latent, angles):
        original = ref.layer_norm
        ref.layer_norm = lambda v, weight, bias, eps: ref.rms_norm(v, weight, eps)
        try:
            return Reference.select(reference, stem, layer, x, q_latent, angles)
        finally:
            ref.layer_norm = original
    reference.select = select


def highest_position_wins_ties(reference):
    def select(stem, layer, x, q_latent, angles):
        Reference.select(reference, stem, layer, x, q_latent, angles)
        scores, chosen = reference.scores[layer], np.zeros((len(x), len(x)), bool)
        for query in range(len(x)):
            best = sorted(range(query + 1), key=lambda t: (-scores[query, t], -t))
            chosen[query, best[: reference.c["index_topk"]]] = True
        return chosen
    reference.select = select


def drop_tensor_ending(ending, value):
    """A mistake that replaces every tensor with this ending by a constant."""
    def apply(reference):
        for name in reference.w:
            if name.endswith(ending):
                reference.w[name] = np.full_like(reference.w[name], value)
    return apply


def bias_in_the_weights(reference):
    """Mixing weights taken from biased scores: the router sees sigmoid(x) + bias everywhere."""
    def experts(stem, x):
        c, w = reference.c, reference.w
        choice = 1 / (1 + np.exp(-(x @ w[stem + "gate.weight"].T))) + w[stem + "gate.e_score_correction_bias"]
        out = reference.feed_forward(stem + "shared_experts.", x)
        for token in range(len(x)):
            best = np.argsort(-choice[token])[: c["num_experts_per_tok"]]
            for e in best:
                weight = choice[token, e] / choice[token, best].sum() * c["routed_scaling_factor"]
                out[token] += weight * reference.feed_forward(f"{stem}experts.{e}.", x[token])
        return out
    reference.experts = experts


def dropped_groups_as_zero(reference):
    def experts(stem, x):
        c, w = reference.c, reference.w
        scores = 1 / (1 + np.exp(-(x @ w[stem + "gate.weight"].T)))
        choice = scores + w[stem + "gate.e_score_correction_bias"]
        out = reference.feed_forward(stem + "shared_experts.", x)
        size = c["n_routed_experts"] // c["n_group"]
        for token in range(len(x)):
            groups = np.sort(choice[token].reshape(c["n_group"], size), -1)[:, -2:].sum(-1)
            kept = np.argsort(-groups)[: c["topk_group"]]
            masked = np.where(np.isin(np.arange(c["n_routed_experts"]) // size, kept), choice[token], 0.0)
            best = np.argsort(-masked, kind="stable")[: c["num_experts_per_tok"]]
            for e in best:
                weight = scores[token, e] / scores[token, best].sum() * c["routed_scaling_factor"]
                out[token] += weight * reference.feed_forward(f"{stem}experts.{e}.", x[token])
        return out
    reference.experts = experts


def no_softmax_mscale(reference):
    reference.softmax_factor = 1.0


def no_attention_factor(reference):
    reference.attention_factor = 1.0


def latent_eps(value):
    def apply(reference):
        del reference
        ref.LATENT_EPS = value
    return apply


def swapped_nibbles(reference):
    """NVFP4 codes read with the even input in the high nibble: neighbouring columns change places."""
    for name, weight in reference.w.items():
        if ".experts." in name and name.endswith(".weight"):
            reference.w[name] = weight.reshape(*weight.shape[:-1], -1, 2)[..., ::-1].reshape(weight.shape)


MISTAKES = [
    ("glm-dsa-list", "indexer RoPE half-split instead of interleaved", indexer_half_split),
    ("glm-dsa-list", "no sparsity at all", dense),
    ("glm-dsa-list", "freq/offset keys win over the indexer_types list", with_config(indexer_types=None)),
    ("glm-dsa-list", "indexer k_norm without bias", drop_tensor_ending("k_norm.bias", 0)),
    ("glm-dsa-list", "indexer k_norm as RMSNorm", key_norm_as_rms),
    ("glm-dsa-list", "router bias ignored", drop_tensor_ending("e_score_correction_bias", 0)),
    ("glm-dsa-list", "router bias in the mixing weights", bias_in_the_weights),
    ("glm-dsa-list", "routed_scaling_factor ignored", with_config(routed_scaling_factor=1.0)),
    ("glm-dsa-list", "norm_topk_prob ignored", with_config(norm_topk_prob=False)),
    ("glm-dsa-list", "rms_norm_eps 1e-2", with_config(rms_norm_eps=1e-2)),
    ("glm-dsa-pattern", "index_topk_pattern ignored: every layer full", with_config(index_topk_pattern=None)),
    ("glm-dsa-freq", "share rule of the first transformers version", first_sharing_rule),
    ("glm-dsa-freq", "index_skip_topk_offset left at 2", with_config(index_skip_topk_offset=2)),
    ("glm-dsa-freq", "latent norms with rms_norm_eps", latent_eps(1e-5)),
    ("glm-dsa-ties", "highest position wins a tie", highest_position_wins_ties),
    ("glm-dsa-nvfp4-ct", "nibbles swapped", swapped_nibbles),
    ("deepseek-v32", "indexer RoPE interleaved instead of half-split", indexer_half_split),
    ("deepseek-v32", "dropped groups filled with 0 instead of -inf", dropped_groups_as_zero),
    ("deepseek-v3-yarn", "dropped groups filled with 0 instead of -inf", dropped_groups_as_zero),
    ("deepseek-v3-yarn", "group limit ignored", with_config(n_group=1, topk_group=1)),
    ("deepseek-v3-yarn", "softmax scale without mscale^2", no_softmax_mscale),
    ("deepseek-v3-yarn", "cos and sin without the attention factor", no_attention_factor),
    ("deepseek-v3-yarn", "YaRN ignored", with_config(rope_scaling=None)),
    ("deepseek-v3-moonlight", "rope_theta 10000", with_config(rope_theta=10000)),
    ("glm4-moe-lite", "routed_scaling_factor 2.5", with_config(routed_scaling_factor=2.5)),
]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "..", "testdata")
    unseen = 0
    for folder, what, mistake in MISTAKES:
        golden = stf.read(os.path.join(root, folder, "golden.safetensors"))
        reference, eps = Reference(os.path.join(root, folder)), ref.LATENT_EPS
        mistake(reference)
        try:
            logits = reference.logits(golden["input_ids"].bits)
        except KeyError as missing:
            print(f"{folder:22} {what:50} asks for a tensor that is not there: {missing}")
            continue
        finally:
            ref.LATENT_EPS = eps
        want = golden["logits"].bits
        damage = np.linalg.norm(logits - want) / np.linalg.norm(want)
        unseen += damage < 1e-3
        print(f"{folder:22} {what:50} {damage:.1e}{'   NOT SEEN' if damage < 1e-3 else ''}")
    sys.exit(1 if unseen else 0)


if __name__ == "__main__":
    main()
