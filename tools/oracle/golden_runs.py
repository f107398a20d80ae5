"""Runs a checkpoint folder in transformers and records what an engine has to reproduce.

Everything is eager attention on the CPU. Index scores and selections are taken from the indexer itself (the
argument of its top-k), router choices from the router module.
"""

from contextlib import contextmanager

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache

MASKED = -1e30  # scores below this are masked-out positions


def load(folder, dtype, allowed_unexpected=""):
    """The transformers model of a folder; fails on any tensor it misses or does not know."""
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    unexpected = [k for k in info["unexpected_keys"] if not (allowed_unexpected and allowed_unexpected in k)]
    if info["missing_keys"] or unexpected or info["mismatched_keys"]:
        raise ValueError(f"{folder}: missing {info['missing_keys']}, unexpected {unexpected}")
    for layer in model.model.layers:
        if getattr(layer.self_attn, "indexer", None) is not None:
            watch_indexer(layer.self_attn.indexer)
    return model.eval()


def set_latent_eps(model, eps):
    """Sets the eps of the q_a and kv_a latent norms (transformers always uses 1e-6)."""
    for name, module in model.named_modules():
        if name.endswith(("q_a_layernorm", "kv_a_layernorm")):
            module.variance_epsilon = eps


def watch_indexer(indexer):
    """Makes an indexer keep its last scores [S, T] and break ties by the lowest position.

    torch.topk leaves the order of equal scores open; relu makes exact zeros common, so the rule matters.
    """
    forward, original = indexer.forward, torch.Tensor.topk

    def lowest_position_first(tensor, count, dim=-1):
        indexer.last_scores = tensor.detach()[0].float()
        order = tensor.sort(dim=dim, descending=True, stable=True)
        return torch.return_types.topk((order.values[..., :count], order.indices[..., :count]))

    def watched(*args, **kwargs):
        torch.Tensor.topk = lowest_position_first
        try:
            indices = forward(*args, **kwargs)
        finally:
            torch.Tensor.topk = original
        indexer.last_topk = indices.detach()[0]
        return indices

    indexer.forward = watched


@contextmanager
def recording(model):
    """Yields {"hidden": {layer: tensor}, "scores": {...}, "topk": {...}, "router": {...}} filled by forwards."""
    record = {"hidden": {}, "scores": {}, "topk": {}, "router": {}}
    hooks = []

    def keep_layer(number, layer):
        def hook(_, __, output):
            record["hidden"][number] = (output[0] if isinstance(output, tuple) else output).detach()[0].float()
            indexer = getattr(layer.self_attn, "indexer", None)
            if indexer is not None:
                record["scores"][number], record["topk"][number] = indexer.last_scores, indexer.last_topk
        return hook

    def keep_router(number):
        def hook(_, __, output):
            record["router"][number] = (output[2].detach(), output[1].detach().float(), output[0].detach().float())
        return hook

    for number, layer in enumerate(model.model.layers):
        hooks.append(layer.register_forward_hook(keep_layer(number, layer)))
        if hasattr(layer.mlp, "gate"):
            hooks.append(layer.mlp.gate.register_forward_hook(keep_router(number)))
    try:
        yield record
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def forward(model, ids, cache=None):
    out = model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=cache is not None)
    return out.logits[0].float()


@torch.no_grad()
def whole(model, ids):
    """(logits [T, V], record, hidden after the final norm [T, hidden]) of one full forward."""
    final = {}
    hook = model.model.norm.register_forward_hook(lambda _, __, out: final.update(h=out.detach()[0].float()))
    try:
        with recording(model) as record:
            logits = forward(model, ids)
    finally:
        hook.remove()
    return logits, record, final["h"]


@torch.no_grad()
def greedy(model, ids, steps):
    """(tokens, logits [steps, V]) by decode with a cache; end-of-sequence ids do not stop it."""
    cache = DynamicCache(config=model.config)
    logits = forward(model, ids, cache)[-1]
    tokens, rows = [], []
    for _ in range(steps):
        rows.append(logits)
        tokens.append(int(logits.argmax()))
        logits = forward(model, tokens[-1:], cache)[-1]
    return tokens, torch.stack(rows)


@torch.no_grad()
def greedy_recomputed(model, ids, steps):
    """The same tokens by full recomputation of every step."""
    tokens, rows = [], []
    for _ in range(steps):
        rows.append(forward(model, ids + tokens)[-1])
        tokens.append(int(rows[-1].argmax()))
    return tokens, torch.stack(rows)


@torch.no_grad()
def chunked(model, ids, chunks):
    """Logits of a prefill in the given chunk lengths; what is left is the last chunk."""
    cache, rows, begin = DynamicCache(config=model.config), [], 0
    for length in list(chunks) + [len(ids)]:
        part = ids[begin : begin + length]
        if part:
            rows.append(forward(model, part, cache))
        begin += len(part)
    return torch.cat(rows)


def relative_error(got, want):
    return float((got - want).norm() / want.norm())


def selection(scores, topk, width):
    """(sorted visible indices [T, width] padded with -1, margin at the cut [T], -inf-masked scores).

    The margin is the distance between the last selected and the first dropped visible score; infinite where
    nothing visible is dropped or both are exactly zero (a tie that the lowest position wins).
    """
    scores = scores.clone()
    scores[scores < MASKED] = -torch.inf
    rows, margins = [], []
    for query, row in enumerate(scores):
        visible = torch.isfinite(row)
        chosen = sorted(int(t) for t in topk[query] if visible[t])
        dropped = visible.clone()
        dropped[chosen] = False
        last, first = (row[chosen].min(), row[dropped].max()) if dropped.any() else (torch.inf, 0.0)
        margins.append(np.inf if last == 0 and first == 0 else float(last - first))
        rows.append(chosen + [-1] * (width - len(chosen)))
    return np.array(rows, np.int32), np.array(margins, np.float32), scores.numpy()


def routing(entry):
    """(experts sorted by id [T, k], their weights [T, k])."""
    experts, weights, _ = entry
    order = experts.argsort(-1)
    return experts.gather(-1, order).to(torch.int32).numpy(), weights.gather(-1, order).numpy()


def router_margin(gate, entry):
    """Smallest distance, over tokens, between what the router keeps and what it drops (experts and groups)."""
    _, _, logits = entry
    top_k, groups = gate.top_k, getattr(gate, "num_group", None) or 1
    if hasattr(gate, "e_score_correction_bias"):
        choice = logits.sigmoid() + gate.e_score_correction_bias
    else:
        choice, groups = logits.softmax(-1), 1
    margin = np.inf
    if groups > 1:
        grouped = choice.view(len(choice), groups, -1)
        ranked = grouped.topk(2, -1)[0].sum(-1).sort(-1, descending=True)
        kept = gate.topk_group
        margin = float((ranked[0][:, kept - 1] - ranked[0][:, kept]).min())
        mask = torch.zeros(len(choice), groups, dtype=torch.bool).scatter(1, ranked[1][:, :kept], True)
        choice = grouped.masked_fill(~mask.unsqueeze(-1), -torch.inf).flatten(1)
    best = choice.topk(top_k + 1, -1)[0]
    return min(margin, float((best[:, top_k - 1] - best[:, top_k]).min()))
