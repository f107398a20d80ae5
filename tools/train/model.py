"""baton-mini as a pure PyTorch training model: the `glm_moe_dsa` equations, one flat token axis.

All projections work on a flat token axis [N, hidden] whose length never changes during training, so
that torch.compile sees one shape for every context length; only attention views it as [B, T].
Every layer carries an indexer. Layers that the configuration calls "shared" use the selection of
the full layer before them; their own indexer exists only to answer "what would every-layer-full
give" and is not exported.

The mathematics follows transformers' modeling_glm_moe_dsa.py and, for multi-token prediction, the
DeepSeek-V3 report (arXiv 2412.19437, section 2.2) with the recycled hidden taken after
shared_head.norm.
"""

import dataclasses
import json
import math

import torch
import torch.nn.functional as F
from torch import nn

LATENT_EPS = 1e-6  # transformers builds both latent norms and the indexer's LayerNorm with 1e-6.


@dataclasses.dataclass
class Config:
    """The keys of config.json that shape the model; unknown keys are ignored."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    moe_intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    q_lora_rank: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    n_routed_experts: int
    num_experts_per_tok: int
    routed_scaling_factor: float
    first_k_dense_replace: int
    index_n_heads: int
    index_head_dim: int
    index_topk: int
    indexer_types: list
    rope_theta: float
    rms_norm_eps: float

    @classmethod
    def load(cls, path):
        with open(path) as f:
            raw = json.load(f)
        raw["rope_theta"] = raw["rope_parameters"]["rope_theta"]
        if raw["num_experts_per_tok"] != 2:
            raise ValueError("the router below is written for two experts per token")
        return cls(**{f.name: raw[f.name] for f in dataclasses.fields(cls)})

    @property
    def qk_head_dim(self):
        return self.qk_nope_head_dim + self.qk_rope_head_dim


def rms_norm(x, weight, eps):
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (h * weight).to(x.dtype)


def linear(x, weight):
    return F.linear(x, weight.to(x.dtype))


def rotate(x, cos, sin):
    """Interleaved pairs in, [real parts | imaginary parts] out, as transformers lays them out."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def rope_table(positions, dim, theta, dtype):
    """cos, sin [N, dim/2]; angles in fp32 exactly as transformers computes them."""
    inv = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float32, device=positions.device) / dim))
    angle = positions.float()[:, None] * inv[None, :]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def keep_rows(latent, k_rope, index_key):
    """The identity row format: what a cache of bf16 rows would return."""
    return latent, k_rope, index_key


class Layer(nn.Module):
    """One decoder layer: MLA with an indexer, then a dense MLP or a mixture of experts."""

    def __init__(self, c, dense):
        super().__init__()
        self.c, self.dense = c, dense
        h, heads = c.hidden_size, c.num_attention_heads

        def matrix(*shape, gain=1.0):
            return nn.Parameter(torch.randn(*shape) * (gain * 0.6 / math.sqrt(shape[-1])))

        def ones(n):
            return nn.Parameter(torch.ones(n))

        out_gain = 1.0 / math.sqrt(2 * c.num_hidden_layers)
        self.input_norm, self.post_norm = ones(h), ones(h)
        self.q_a, self.q_a_norm = matrix(c.q_lora_rank, h), ones(c.q_lora_rank)
        self.q_b = matrix(heads * c.qk_head_dim, c.q_lora_rank)
        self.kv_a = matrix(c.kv_lora_rank + c.qk_rope_head_dim, h)
        self.kv_a_norm = ones(c.kv_lora_rank)
        self.kv_b = matrix(heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank)
        self.o = matrix(h, heads * c.v_head_dim, gain=out_gain)
        self.wq_b = matrix(c.index_n_heads * c.index_head_dim, c.q_lora_rank)
        self.wk = matrix(c.index_head_dim, h)
        self.k_norm_w, self.k_norm_b = ones(c.index_head_dim), nn.Parameter(torch.zeros(c.index_head_dim))
        # Starts positive on average: a head whose weight is negative can only push tokens away.
        self.weights_proj = matrix(c.index_n_heads, h)
        if dense:
            self.gate = matrix(c.intermediate_size, h)
            self.up = matrix(c.intermediate_size, h)
            self.down = matrix(h, c.intermediate_size, gain=out_gain)
        else:
            e, i = c.n_routed_experts, c.moe_intermediate_size
            self.router = matrix(e, h)
            self.register_buffer("router_bias", torch.zeros(e))
            self.register_buffer("load", torch.zeros(e), persistent=False)
            self.experts_gate, self.experts_up = matrix(e, i, h), matrix(e, i, h)
            self.experts_down = matrix(e, h, i, gain=out_gain)
            self.shared_gate, self.shared_up = matrix(i, h), matrix(i, h)
            self.shared_down = matrix(h, i, gain=out_gain)

    def attention_weights(self):
        return (self.input_norm, self.q_a, self.q_a_norm, self.q_b, self.kv_a, self.kv_a_norm, self.kv_b,
                self.wq_b, self.wk, self.k_norm_w, self.k_norm_b, self.weights_proj)

    def mlp_weights(self):
        if self.dense:
            return (self.o, self.post_norm, self.gate, self.up, self.down)
        return (self.o, self.post_norm, self.router, self.router_bias, self.experts_gate, self.experts_up,
                self.experts_down, self.shared_gate, self.shared_up, self.shared_down)


def project(x, cos, sin, weights, c, rows=keep_rows):
    """x [N, hidden] -> q, k [N, heads, nope+rope], v [N, heads, v], index q [N, ih, id], index k [N, id],
    index head weights [N, ih] (fp32, scaled). The indexer sees detached inputs: it imitates, it does
    not steer. `rows` stands for the round trip through a KV row format."""
    input_norm, q_a, q_a_norm, q_b, kv_a, kv_a_norm, kv_b, wq_b, wk, k_norm_w, k_norm_b, weights_proj = weights
    n, heads, nope = x.shape[0], c.num_attention_heads, c.qk_nope_head_dim
    x = rms_norm(x, input_norm, c.rms_norm_eps)
    q_resid = rms_norm(linear(x, q_a), q_a_norm, LATENT_EPS)
    q = linear(q_resid, q_b).view(n, heads, c.qk_head_dim)
    q = torch.cat([q[..., :nope], rotate(q[..., nope:], cos[:, None], sin[:, None])], dim=-1)
    compressed = linear(x, kv_a)
    latent = rms_norm(compressed[:, : c.kv_lora_rank], kv_a_norm, LATENT_EPS)
    k_rope = rotate(compressed[:, c.kv_lora_rank:], cos, sin)

    xd, qd = x.detach(), q_resid.detach()
    r = c.qk_rope_head_dim
    iq = linear(qd, wq_b).view(n, c.index_n_heads, c.index_head_dim)
    iq = torch.cat([rotate(iq[..., :r], cos[:, None], sin[:, None]), iq[..., r:]], dim=-1)
    ik = F.layer_norm(linear(xd, wk).float(), (c.index_head_dim,), k_norm_w, k_norm_b, LATENT_EPS).to(x.dtype)
    ik = torch.cat([rotate(ik[..., :r], cos, sin), ik[..., r:]], dim=-1)
    iw = F.linear(xd.float(), weights_proj.float()) * (c.index_n_heads ** -0.5 * c.index_head_dim ** -0.5)

    latent, k_rope, ik = rows(latent, k_rope, ik)
    kv = linear(latent, kv_b).view(n, heads, nope + c.v_head_dim)
    k = torch.cat([kv[..., :nope], k_rope[:, None].expand(n, heads, r)], dim=-1)
    return q, k, kv[..., nope:].contiguous(), iq, ik, iw


def finish_dense(x, attended, weights, c):
    """Residual, output projection and SwiGLU MLP; attended [N, heads*v] -> [N, hidden]."""
    o, post_norm, gate, up, down = weights
    x = x + linear(attended, o)
    h = rms_norm(x, post_norm, c.rms_norm_eps)
    return x + linear(F.silu(linear(h, gate)) * linear(h, up), down)


def finish_moe(x, attended, weights, c):
    """As finish_dense with experts. All experts are computed and the unrouted ones weighted by zero:
    at this width one dense product is faster than sorting tokens. Returns x and the load [E]."""
    o, post_norm, router, bias, w_gate, w_up, w_down, s_gate, s_up, s_down = weights
    x = x + linear(attended, o)
    h = rms_norm(x, post_norm, c.rms_norm_eps)
    scores = torch.sigmoid(F.linear(h.float(), router.float()))
    choice = scores.detach() + bias
    best = choice.amax(-1, keepdim=True)
    second = choice.masked_fill(choice >= best, float("-inf")).amax(-1, keepdim=True)
    chosen = (choice >= second).float()
    route = scores * chosen
    route = route / (route.sum(-1, keepdim=True) + 1e-20) * c.routed_scaling_factor
    e, i, hidden = w_gate.shape
    act = F.silu(linear(h, w_gate.view(e * i, hidden))) * linear(h, w_up.view(e * i, hidden))
    act = (act.view(-1, e, i) * route.to(act.dtype)[:, :, None]).view(-1, e * i)
    y = linear(act, w_down.permute(1, 0, 2).reshape(hidden, e * i))
    y = y + linear(F.silu(linear(h, s_gate)) * linear(h, s_up), s_down)
    return x + y, chosen.mean(0)


def head_loss(h, lm_head, targets):
    """Per-token cross entropy [N] (fp32) and whether the arg-max is right [N]."""
    logits = linear(h, lm_head).float()
    return F.cross_entropy(logits, targets, reduction="none"), logits.detach().argmax(-1) == targets


def index_scores(iq, ik, iw):
    """iq [B, Q, ih, id], ik [B, T, id], iw [B, Q, ih] -> [B, Q, T] (fp32, before causality)."""
    b, q, ih, d = iq.shape
    s = torch.relu(torch.matmul(iq.reshape(b, q * ih, d), ik.transpose(1, 2))).view(b, q, ih, -1)
    return torch.einsum("bqh,bqht->bqt", iw.to(s.dtype), s).float()


class Attention:
    """How [B, T] attention is computed. `backend` is chosen once by train.py on the device."""

    backend = "math"

    @classmethod
    def dense(cls, q, k, v):
        """q, k [B, T, H, D], v [B, T, H, V] -> [B, T, H*V], causal."""
        b, t = q.shape[:2]
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if cls.backend == "cudnn":
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        elif cls.backend == "flash":
            wide = F.pad(v, (0, q.shape[-1] - v.shape[-1]))
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
                out = F.scaled_dot_product_attention(q, k, wide, is_causal=True)[..., : v.shape[-1]]
        else:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(b, t, -1)

    flex = None  # a compiled flex_attention, where the device has it

    @classmethod
    def masked(cls, q, k, v, mask):
        """As dense, restricted to mask [B, T, T] (bool, already causal)."""
        b, t = q.shape[:2]
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        if cls.flex is not None and t >= 8192:  # below, compiling it costs more than it saves
            if b * t * t > 2 ** 31:  # the mask must be indexed with 32 bits: one sequence at a time
                out = torch.cat([cls.flex(q[i:i + 1], k[i:i + 1], v[i:i + 1], mask[i:i + 1]) for i in range(b)])
            else:
                out = cls.flex(q, k, v, mask)
        else:
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None])
        return out.transpose(1, 2).reshape(b, t, -1)


@torch.no_grad()
def select(iq, ik, iw, topk, chunk=1024):
    """The causal top-k set of every query as a mask [B, T, T] (bool)."""
    b, t = ik.shape[:2]
    mask = torch.zeros(b, t, t, dtype=torch.bool, device=ik.device)
    for start in range(0, t, chunk):
        stop = min(start + chunk, t)
        causal = torch.arange(stop, device=ik.device)[None, :] <= torch.arange(start, stop, device=ik.device)[:, None]
        if stop <= topk:
            mask[:, start:stop, :stop] = causal
            continue
        s = index_scores(iq[:, start:stop], ik[:, :stop], iw[:, start:stop])
        s = s.masked_fill(~causal, float("-inf"))
        top = s.topk(min(topk, stop), dim=-1).indices
        chosen = torch.zeros_like(s, dtype=torch.bool).scatter_(-1, top, True) & causal
        for row, part in zip(mask, chosen) if mask.numel() > 2 ** 31 else [(mask.transpose(0, 1), chosen.transpose(0, 1))]:
            row[start:stop, ..., :stop] = part
    return mask


def sampled_attention(q, k, rows, scale, mask=None):
    """Attention probabilities of the sampled query rows [B, Q], summed over heads and normalised to
    one: [B, Q, T] fp32, detached. `mask` [B, T, T] restricts to a selection."""
    b, t = k.shape[:2]
    qs = torch.gather(q.detach(), 1, rows[:, :, None, None].expand(-1, -1, *q.shape[2:]))
    s = torch.matmul(qs.transpose(1, 2), k.detach().permute(0, 2, 3, 1)).float() * scale
    s = s.masked_fill(~visible(rows, t, mask)[:, None], float("-inf"))
    return torch.softmax(s, dim=-1).mean(1)


def visible(rows, t, mask=None):
    seen = torch.arange(t, device=rows.device)[None, None, :] <= rows[:, :, None]
    if mask is not None:
        # One sequence at a time: a whole mask can have more elements than 32 bits can index.
        seen = seen & torch.stack([m[r] for m, r in zip(mask, rows)])
    return seen


def indexer_loss(target, iq, ik, iw, rows, mask=None):
    """KL(target || softmax of index scores) at the sampled rows, mean over rows (DeepSeek-V3.2,
    arXiv 2512.02556: over all tokens in the dense warm-up, over the selected set afterwards)."""
    pick = rows[:, :, None]
    s = index_scores(torch.gather(iq, 1, pick[..., None].expand(-1, -1, *iq.shape[2:])), ik,
                     torch.gather(iw, 1, pick.expand(-1, -1, iw.shape[2])))
    seen = visible(rows, ik.shape[1], mask)
    logp = torch.log_softmax(s.masked_fill(~seen, float("-inf")), dim=-1).masked_fill(~seen, 0.0)
    entropy = torch.xlogy(target, target).sum(-1)
    return (entropy - (target * logp).sum(-1)).mean()


class Model(nn.Module):
    """The trunk, the language-model head and one multi-token-prediction layer."""

    def __init__(self, config):
        super().__init__()
        c = self.c = config
        self.embed = nn.Parameter(torch.randn(c.vocab_size, c.hidden_size) * 0.5)
        self.layers = nn.ModuleList(Layer(c, i < c.first_k_dense_replace) for i in range(c.num_hidden_layers))
        self.norm = nn.Parameter(torch.ones(c.hidden_size))
        self.lm_head = nn.Parameter(torch.randn(c.vocab_size, c.hidden_size) * 0.01)
        self.mtp_layer = Layer(c, dense=False)
        self.enorm, self.hnorm = nn.Parameter(torch.ones(c.hidden_size)), nn.Parameter(torch.ones(c.hidden_size))
        eye = torch.cat([torch.eye(c.hidden_size), torch.eye(c.hidden_size)], dim=1) * 0.7
        self.eh_proj = nn.Parameter(eye + torch.randn_like(eye) * 0.01)
        self.mtp_norm = nn.Parameter(torch.ones(c.hidden_size))
        self.ops = {"project": project, "dense": finish_dense, "moe": finish_moe, "head": head_loss}

    def compile(self):
        for name, op in self.ops.items():
            self.ops[name] = torch.compile(op, dynamic=False)

    def run_layer(self, layer, x, cos, sin, shape, mode, rows, rows_mask, state):
        """One layer on x [B*T, hidden]. `state` carries the selection, and the target sums of the
        group of layers that share it, from layer to layer."""
        c = self.c
        b, t = shape
        q, k, v, iq, ik, iw = (y.view(b, t, *y.shape[1:]) for y in
                               self.ops["project"](x, cos, sin, layer.attention_weights(), c))
        if mode.sparse and t > c.index_topk and (state["full"] or mode.all_full):
            state["mask"] = select(iq.detach(), ik.detach(), iw.detach(), c.index_topk)
        mask = state["mask"] if mode.sparse and t > c.index_topk else None
        out = Attention.dense(q, k, v) if mask is None else Attention.masked(q, k, v, mask)
        if rows is not None:
            seen = mask if mode.imitate_selected else None
            target = sampled_attention(q, k, rows, c.qk_head_dim ** -0.5, seen)
            own = (iq, ik, iw)
            if state["full"]:
                state["groups"].append([own, [], seen])
            else:
                # A shared layer's own indexer is trained for the every-layer-full comparison only.
                state["loss"] = state["loss"] + indexer_loss(target, *own, rows, seen)
            state["groups"][-1][1].append(target)
        out = out.view(b * t, -1)
        if layer.dense:
            return self.ops["dense"](x, out, layer.mlp_weights(), c)
        x, load = self.ops["moe"](x, out, layer.mlp_weights(), c)
        if self.training:
            layer.load.add_(load.detach())
        return x

    def trunk(self, ids, positions, mode, rows=None):
        """ids, positions [B, T] -> final-norm hidden [B*T, hidden] and the indexer loss."""
        c = self.c
        b, t = ids.shape
        cos, sin = rope_table(positions.reshape(-1), c.qk_rope_head_dim, c.rope_theta, mode.dtype)
        x = F.embedding(ids.reshape(-1), self.embed).to(mode.dtype)
        state = {"mask": None, "groups": [], "loss": x.new_zeros((), dtype=torch.float32), "full": True}
        for layer, kind in zip(self.layers, c.indexer_types):
            state["full"] = kind == "full"
            x = self.run_layer(layer, x, cos, sin, (b, t), mode, rows, None, state)
        loss = state["loss"]
        for own, targets, mask in state["groups"]:
            # A full layer's indexer imitates the mean attention of all layers that use its selection.
            loss = loss + indexer_loss(torch.stack(targets).mean(0), *own, rows, mask)
        return rms_norm(x, self.norm, c.rms_norm_eps), loss

    def drafts(self, hidden, ids, targets, positions, mode, steps, rows=None):
        """Multi-token prediction over windows: hidden [B*T, hidden] of the trunk, ids and positions
        [B, T], targets [B, T] = the next token of each position.
        Yields per step (hidden [B*T, hidden], indexer loss)."""
        c = self.c
        b, t = ids.shape
        cos, sin = rope_table(positions.reshape(-1), c.qk_rope_head_dim, c.rope_theta, mode.dtype)
        e = rms_norm(F.embedding(targets.reshape(-1), self.embed).to(mode.dtype), self.enorm, c.rms_norm_eps)
        state = {"mask": None, "groups": [], "loss": hidden.new_zeros((), dtype=torch.float32), "full": True}
        for step in range(steps):
            h = rms_norm(hidden, self.hnorm, c.rms_norm_eps)
            z = linear(torch.cat([e, h], dim=-1), self.eh_proj)
            state["full"] = step == 0  # later steps reuse the selection of step 0
            out = self.run_layer(self.mtp_layer, z, cos, sin, (b, t), mode, rows if step == 0 else None, None, state)
            g = rms_norm(out, self.mtp_norm, c.rms_norm_eps)
            loss = hidden.new_zeros((), dtype=torch.float32)
            if step == 0 and rows is not None:
                own, group, mask = state["groups"][0]
                loss = indexer_loss(group[0], *own, rows, mask)
            yield g, loss
            hidden = F.pad(g.view(b, t, -1)[:, :-1], (0, 0, 1, 0)).reshape(b * t, -1)


@dataclasses.dataclass
class Mode:
    """How to run: `sparse` applies the selection; `all_full` gives every layer its own."""

    dtype: torch.dtype = torch.bfloat16
    sparse: bool = False
    all_full: bool = False
    imitate_selected: bool = False  # the indexer's targets are restricted to the selected set
