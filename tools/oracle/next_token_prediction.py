"""Goldens of the MTP (next-token-prediction) layer, assembled from the family's own decoder layer.

transformers drops this layer when it loads a trunk. The computation, as serving engines run it:
  z_i = eh_proj([enorm(embed(t_{i+1})), hnorm(h_i)]),  h_i = output of the trunk's final norm at position i
  g_i = shared_head.norm(decoder_layer(z)_i),  draft logits = lm_head(g_i)
Further drafts run the same layer with the drafted token and g (after the norm) in place of h. Positions are those
of h; the embedding at position 0 is not zeroed.
"""

import torch
from transformers import DynamicCache

from golden_runs import selection, watch_indexer
from random_weights import stf, with_mtp_layer


class MtpLayer:
    """One MTP layer over a loaded trunk. `share_selection` keeps the first draft step's index set."""

    def __init__(self, trunk, folder):
        config = with_mtp_layer(trunk.config)
        self.trunk, self.number = trunk, trunk.config.num_hidden_layers
        self.config = config
        self.layer = type(trunk.model.layers[-1])(config, self.number).eval()
        self.layer.self_attn.config._attn_implementation = "eager"
        stem = f"model.layers.{self.number}."
        stored = {name[len(stem):]: torch.from_numpy(stf.to_float32(tensor).copy())
                  for name, tensor in stf.read_folder(folder).items() if name.startswith(stem)}
        self.enorm, self.hnorm = stored.pop("enorm.weight"), stored.pop("hnorm.weight")
        self.eh_proj, self.head_norm = stored.pop("eh_proj.weight"), stored.pop("shared_head.norm.weight")
        stored.pop("embed_tokens.weight", None)
        stored.pop("shared_head.head.weight", None)
        self.layer.load_state_dict(fuse_experts(stored), strict=True)
        self.smallest_margin = float("inf")
        if getattr(self.layer.self_attn, "indexer", None) is not None:
            watch_indexer(self.layer.self_attn.indexer)

    def norm(self, x, weight):
        return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps)

    @torch.no_grad()
    def run(self, tokens, hidden, cache, first_position, forced=None):
        """(draft logits [n, V], g [n, hidden], selected indices or None) for n (token, hidden) pairs.

        `forced` [n, k] replaces the layer's own selection; its index keys are still written.
        """
        embedded = self.trunk.model.embed_tokens(torch.tensor(tokens))
        z = torch.cat([self.norm(embedded, self.enorm), self.norm(hidden, self.hnorm)], -1) @ self.eh_proj.T
        positions = torch.arange(first_position, first_position + len(tokens))[None]
        total = first_position + len(tokens)
        mask = torch.where(torch.arange(total)[None] <= positions[0][:, None], 0.0, torch.finfo(torch.float32).min)
        arguments = dict(attention_mask=mask[None, None], position_ids=positions, past_key_values=cache,
                         position_embeddings=self.trunk.model.rotary_emb(z[None], position_ids=positions))
        indexer, selected = getattr(self.layer.self_attn, "indexer", None), {}
        if indexer is not None:
            own = indexer.forward

            def choose(*args, **kwargs):
                chosen = own(*args, **kwargs)
                selected["set"] = chosen if forced is None else forced
                return selected["set"]
            indexer.forward = choose
        try:
            out = self.layer(z[None], **arguments)
        finally:
            if indexer is not None:
                indexer.forward = own
                margin = selection(indexer.last_scores, indexer.last_topk, self.config.index_topk)[1].min()
                self.smallest_margin = min(self.smallest_margin, float(margin))
        out = out[0] if isinstance(out, tuple) else out
        g = self.norm(out[0], self.head_norm)
        return self.trunk.lm_head(g), g, selected.get("set")

    def new_cache(self):
        return DynamicCache(config=self.config)

    def drafts(self, ids, hidden, next_token, steps, share_selection):
        """Greedy drafts after the prompt `ids`: (prefill logits [T, V], draft tokens, draft logits [steps, V], sets).

        `hidden` is the trunk's final-norm output [T, hidden], `next_token` what the trunk emits after the prompt.
        """
        cache = self.new_cache()
        prefill, g, selected = self.run(ids[1:] + [next_token], hidden, cache, 0)
        logits, g = prefill[-1:], g[-1:]
        kept = selected[:, -1:] if share_selection and selected is not None else None
        tokens, rows, sets = [], [], [selected[0, -1].tolist() if selected is not None else []]
        for step in range(steps):
            rows.append(logits[0])
            tokens.append(int(logits[0].argmax()))
            if step + 1 < steps:
                logits, g, chosen = self.run(tokens[-1:], g, cache, len(ids) + step, kept)
                sets.append(chosen[0, -1].tolist() if chosen is not None else [])
        return prefill, tokens, torch.stack(rows), sets


def fuse_experts(stored):
    """Per-expert tensors -> the fused names of transformers (gate rows first)."""
    fused, experts = {}, {}
    for name, tensor in stored.items():
        if ".experts." in name:
            number, part, _ = name.split(".experts.")[1].split(".")
            experts.setdefault(int(number), {})[part] = tensor
        else:
            fused[name] = tensor
    if experts:
        ordered = [experts[e] for e in sorted(experts)]
        fused["mlp.experts.gate_up_proj"] = torch.stack(
            [torch.cat([e["gate_proj"], e["up_proj"]]) for e in ordered])
        fused["mlp.experts.down_proj"] = torch.stack([e["down_proj"] for e in ordered])
    return fused
