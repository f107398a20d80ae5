"""The optimiser: Muon (orthogonalised momentum, https://kellerjordan.github.io/posts/muon/) for the
matrices inside the layers, AdamW for embeddings, head, router, norms and biases.

Gradients live in one flat buffer, so that data parallelism is a single all-reduce.
"""

import torch
import torch.distributed as dist

MUON_RATE, MUON_MOMENTUM, WEIGHT_DECAY = 0.02, 0.95, 0.1
ADAM_RATES = {"embed": 6e-3, "lm_head": 3e-3, "router": 3e-3, "other": 3e-3}


def orthogonalise(g, steps=5):
    """Newton-Schulz iteration on a batch [n, rows, cols] with rows <= cols (bf16)."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    return x.float()


class Optimizer:
    def __init__(self, model, world):
        self.world, self.model = world, model
        named = list(model.named_parameters())
        matrix = lambda n, p: p.ndim >= 2 and not any(s in n for s in ("embed", "lm_head", "router", "weights_proj"))
        self.muon = [p for n, p in named if matrix(n, p)]
        rest = [(n, p) for n, p in named if not matrix(n, p)]
        self.flat = torch.zeros(sum(p.numel() for _, p in named), device=named[0][1].device)
        at = 0
        for p in self.muon + [p for _, p in rest]:
            p.grad = self.flat[at: at + p.numel()].view_as(p)
            at += p.numel()
        self.n_muon = sum(p.numel() for p in self.muon)
        self.momentum = torch.zeros(self.n_muon, device=self.flat.device)
        groups = {}
        for n, p in rest:
            key = next((k for k in ADAM_RATES if k in n), "other")
            groups.setdefault(key, []).append(p)
        self.adam = torch.optim.AdamW([{"params": ps, "lr": ADAM_RATES[k], "base": ADAM_RATES[k]} for k, ps in groups.items()],
                                      betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=self.flat.is_cuda)
        # Matrices of one shape (up to transposition) are orthogonalised together.
        self.shapes = {}
        at = 0
        for p in self.muon:
            self.shapes.setdefault(tuple(sorted(p.shape[-2:])), []).append((p, at))
            at += p.numel()

    @torch.no_grad()
    def step(self, scale):
        if self.world > 1:
            dist.all_reduce(self.flat)
            self.flat.div_(self.world)
        self.flat.nan_to_num_(0.0, 0.0, 0.0)
        g = self.flat[: self.n_muon]
        self.momentum.lerp_(g, 1 - MUON_MOMENTUM)
        update = g.lerp(self.momentum, MUON_MOMENTUM)  # Nesterov
        rate = MUON_RATE * scale
        updates, factors = [], []
        for members in self.shapes.values():
            views = []
            for p, at in members:
                u = update[at: at + p.numel()].view(-1, *p.shape[-2:])
                views.append(u if u.shape[-2] <= u.shape[-1] else u.mT)
            done = orthogonalise(torch.cat(views)).split([v.shape[0] for v in views])
            for (p, _), u in zip(members, done):
                rows, cols = p.shape[-2:]
                updates.append((u if rows <= cols else u.mT).reshape(p.shape))
                factors.append(-rate * max(1.0, rows / cols) ** 0.5)
        ordered = [p for members in self.shapes.values() for p, _ in members]
        torch._foreach_mul_(updates, factors)
        torch._foreach_mul_(ordered, 1 - rate * WEIGHT_DECAY)
        torch._foreach_add_(ordered, updates)
        for group in self.adam.param_groups:
            group["lr"] = group["base"] * scale
        self.adam.step()
        self.flat.zero_()
        self.balance()

    def balance(self):
        """Moves every router's selection bias against its load (arXiv 2408.15664)."""
        layers = [l for l in [*self.model.layers, self.model.mtp_layer] if not l.dense]
        loads = torch.stack([l.load for l in layers])
        if self.world > 1:
            dist.all_reduce(loads)
        for layer, load in zip(layers, loads):
            layer.router_bias.add_(torch.sign(load.mean() - load), alpha=1e-3)
            layer.load.zero_()

    def state(self):
        return {"momentum": self.momentum, "adam": self.adam.state_dict()}

    def load(self, state):
        self.momentum.copy_(state["momentum"])
        self.adam.load_state_dict(state["adam"])
