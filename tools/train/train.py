"""Trains baton-mini. One process per GPU; one command trains from start to end, resumable.

    torchrun --nproc-per-node 2 train.py PACK OUT --seconds 1000            # everything
    torchrun --nproc-per-node 2 train.py PACK OUT --seconds 500 --end 0.5   # first half, then
    torchrun --nproc-per-node 2 train.py PACK OUT --seconds 500 --begin 0.5 # the rest, from OUT/last.pt

The time given is mapped onto the progress axis of curriculum.py, so that a run fits a machine's
lease; the log records the tokens. Prints loss, recall, tokens per second.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tokenizers import Tokenizer

import curriculum
import prepare
from export import load_weights
from model import Attention, Config, Mode, Model
from muon import Optimizer
from recall_rows import Recall

MTP_STEPS = 3
MTP_WEIGHTS = (0.12, 0.08, 0.06)
SAMPLED_ROWS = 64  # query rows per sequence on which the indexer imitates the attention


def choose_attention(device):
    """The fastest dense kernel that agrees with the plain formula in value and gradient."""
    q, k = (torch.randn(4, 2048, 4, 128, device=device, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    v = torch.randn(4, 2048, 4, 64, device=device, dtype=torch.bfloat16, requires_grad=True)
    Attention.backend = "math"
    reference = Attention.dense(q, k, v)
    g = torch.randn_like(reference)
    wanted = torch.autograd.grad(reference, (q, k, v), g)
    times = {}
    for backend in ("cudnn", "flash"):
        try:
            Attention.backend = backend
            for i in range(6):
                if i == 2:
                    torch.cuda.synchronize()
                    begin = time.time()
                out = Attention.dense(q, k, v)
                got = torch.autograd.grad(out, (q, k, v), g)
            torch.cuda.synchronize()
            error = max(((a - b).float().norm() / b.float().norm()).item()
                        for a, b in zip((out, *got), (reference, *wanted)))
            if error < 0.02:
                times[backend] = time.time() - begin
            else:
                print(f"attention backend {backend}: relative error {error:.3f}, not used", flush=True)
        except RuntimeError as problem:
            print(f"attention backend {backend}: {str(problem)[:120]}", flush=True)
    Attention.backend = min(times, key=times.get) if times else "math"
    return times


def enable_flex():
    """Masked attention through flex_attention: the selection is read as a bool matrix, and blocks
    above the diagonal are skipped."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    compiled = torch.compile(flex_attention, dynamic=False)
    blocks = {}

    def attend(q, k, v, mask):
        t = q.shape[2]
        if t not in blocks:
            blocks[t] = create_block_mask(lambda b, h, i, j: i >= j, None, None, t, t, device=q.device)

        def score(s, b, h, i, j):
            return torch.where(mask[b, i, j], s, float("-inf"))

        return compiled(q, k, v, score_mod=score, block_mask=blocks[t])

    Attention.flex = staticmethod(attend)


def sample_rows(batch, device):
    """Query rows for the indexer: half where an answer token is to be predicted, half anywhere."""
    b, t = batch["ids"].shape
    noise = torch.rand(b, t, device=device)
    n = min(SAMPLED_ROWS, t // 2)
    wanted = (noise + 10.0 * batch["recall"].float()).topk(n // 2, dim=1).indices
    return torch.cat([wanted, noise.topk(n - n // 2, dim=1).indices], dim=1)


def training_loss(model, batch, mode, indexer, drafts, window):
    """The loss of one batch and what to log (tensors, not yet read)."""
    ids, targets = batch["ids"], batch["targets"]
    b, t = ids.shape
    rows = sample_rows(batch, ids.device) if indexer else None
    hidden, index_loss = model.trunk(ids, batch["positions"], mode, rows)
    ce, right = model.ops["head"](hidden, model.lm_head, targets.reshape(-1))
    loss = (ce * batch["weight"].reshape(-1)).sum() + index_loss
    recall = batch["recall"].reshape(-1)
    text = batch["text"].reshape(-1)
    log = {"text": (ce.detach() * text).sum() / text.sum().clamp(min=1),
           "recall": (right & recall).sum() / recall.sum().clamp(min=1),
           "n_recall": recall.sum() > 0, "indexer": index_loss.detach()}
    if drafts:
        n, width = drafts, min(window, t)
        flat = lambda x: x.reshape(-1)[:n].view(-1, width)
        ids_w, targets_w, positions_w = flat(ids), flat(targets), flat(batch["positions"])
        # Row i of a window predicts the token after next; the last row of a window has none.
        goal = F.pad(targets_w[:, 1:], (0, 1))
        step_rows = torch.randint(0, width, (ids_w.shape[0], 32), device=ids.device) if indexer else None
        usable = torch.ones_like(ids_w, dtype=torch.float32)
        usable[:, -1] = 0
        for step, (g, l) in enumerate(model.drafts(hidden[:n], ids_w, targets_w, positions_w,
                                                   Mode(mode.dtype), MTP_STEPS, step_rows)):
            if step:
                usable[:, step - 1] = 0
            ce_d, right_d = model.ops["head"](g, model.lm_head, goal.reshape(-1))
            u = usable.reshape(-1).clone()
            loss = loss + MTP_WEIGHTS[step] * (ce_d * u).sum() / u.sum() + l
            log[f"draft{step}"] = (right_d * u).sum() / u.sum()
    return loss, log


def exact_runs(right, flags):
    """The share of runs of flagged tokens (answers) in which every token is right; [R, T] each."""
    start = flags & ~F.pad(flags[:, :-1], (1, 0))
    run = start.reshape(-1).cumsum(0) * flags.reshape(-1)
    wrong = torch.zeros(int(start.sum()) + 1, device=flags.device)
    wrong.index_add_(0, run, (flags & ~right).reshape(-1).float())
    return (wrong[1:] == 0).float().mean().item() if len(wrong) > 1 else 0.0


class Run:
    def __init__(self, args):
        self.args = args
        self.rank = int(os.environ.get("RANK", 0))
        self.world = int(os.environ.get("WORLD_SIZE", 1))
        cuda = torch.cuda.is_available()
        self.device = torch.device(f"cuda:{int(os.environ.get('LOCAL_RANK', 0))}" if cuda else "cpu")
        if cuda:
            torch.cuda.set_device(self.device)
        if self.world > 1:
            dist.init_process_group("nccl" if cuda else "gloo")
        torch.manual_seed(args.seed)
        torch.backends.cuda.matmul.allow_tf32 = True
        pack = pathlib.Path(args.pack)
        self.config = Config.load(pack / "config.json")
        self.tokenizer = Tokenizer.from_file(str(pack / "tokenizer.json"))
        self.model = Model(self.config).to(self.device)
        self.optimizer = Optimizer(self.model, self.world)
        self.out = pathlib.Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.tokens_seen, self.step, self.stage, self.taken = 0, 0, 0, 0
        if args.weights:
            self.model.load_state_dict(load_weights(args.weights))
            self.stage = args.stage
        elif args.begin > 0:
            self.load(self.out / "last.pt")
        torch.manual_seed(args.seed * 1000 + self.rank + int(args.begin * 1e6))
        as_tensor = lambda name: torch.from_numpy(prepare.load(pack / name).astype(np.int32)).to(self.device)
        starts = torch.from_numpy(np.load(pack / "dialogue_starts.npy")).long().to(self.device)
        self.batches = curriculum.Batches(Recall(self.tokenizer, self.device), as_tensor("corpus.xz"),
                                          as_tensor("dialogues.xz"), starts, args.tokens,
                                          args.seed + self.step, self.device)
        self.mode = Mode(torch.bfloat16 if cuda else torch.float32)
        torch._dynamo.config.recompile_limit = 64
        if cuda:
            times = choose_attention(self.device)
            self.say(f"attention {Attention.backend} {times}")
            if args.flex:
                enable_flex()
            self.model.compile()
        self.model.train()

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)
            with open(self.out / "log.txt", "a") as f:
                f.write(text + "\n")

    def save(self, name="last.pt"):
        if self.rank == 0:
            torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state(),
                        "tokens": self.tokens_seen, "step": self.step, "stage": self.stage}, self.out / name)

    def load(self, path):
        saved = torch.load(path, map_location=self.device)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load(saved["optimizer"])
        self.tokens_seen, self.step, self.stage = saved["tokens"], saved["step"], saved["stage"]

    def one_step(self, length, sparse, progress):
        batch = self.batches.batch(length)
        mode = Mode(self.mode.dtype, sparse=sparse, imitate_selected=sparse and self.step % 2 == 1)
        indexer = sparse or self.step % (2 if progress >= curriculum.INDEXER_FULLY_FROM else 4) == 0
        drafts = self.args.tokens // 4 if self.step % 2 == 0 else 0
        loss, log = training_loss(self.model, batch, mode, indexer, drafts, 1024)
        loss.backward()
        # A fresh optimiser (continued from weights alone) warms up for a few steps.
        self.optimizer.step(curriculum.learning_rate(progress) * min(1.0, (self.taken + 1) / 30))
        self.taken += 1
        self.step += 1
        self.tokens_seen += self.args.tokens * self.world
        return loss.detach(), log

    def agree(self, value):
        """Rank 0's number, on every rank."""
        if self.world == 1:
            return value
        box = torch.tensor([value], device=self.device, dtype=torch.float64)
        dist.broadcast(box, 0)
        return box.item()

    def train(self):
        args, stages = self.args, list(curriculum.STAGES)
        if args.cycle:
            lengths = tuple(int(x) for x in args.cycle.split(","))
            stages[self.stage] = dataclasses.replace(stages[self.stage], cycle=lengths)
        begin_time = last_time = None
        progress, mean_recall, last_tokens = args.begin, 0.0, self.tokens_seen
        history = []
        while progress < args.end:
            stage = stages[self.stage]
            length, own = stage.pick(self.step)
            loss, log = self.one_step(length, stage.sparse, progress)
            if own:
                history.append((loss, log))
            if begin_time is None:  # the first step compiles: the clock starts after it
                torch.cuda.synchronize() if self.device.type == "cuda" else None
                begin_time = last_time = time.time()
                self.say(f"first step done at {time.time() - START:.0f} s")
            if self.step % 20 == 0:
                progress = self.agree(args.begin + (args.end - args.begin) * (time.time() - begin_time) / args.seconds)
                seen = [l["recall"] for _, l in history if l["n_recall"]]
                recent = torch.stack(seen).mean().item() if seen else 0.0
                mean_recall = self.agree(0.7 * mean_recall + 0.3 * recent)
                now = time.time()
                if self.step % 100 == 0:
                    names = ["text", "recall", "indexer"] + [f"draft{i}" for i in range(MTP_STEPS)]
                    values = {k: [l[k].float() for _, l in history if k in l and (k != "indexer" or l[k] > 0)] for k in names}
                    show = " ".join(f"{k} {torch.stack(v).mean().item():.3f}" for k, v in values.items() if v)
                    rate = (self.tokens_seen - last_tokens) / (now - last_time) / 1e6
                    self.say(f"{time.time() - START:6.0f}s p {progress:.3f} step {self.step} T {stage.length}{'s' if stage.sparse else ''} "
                             f"tok {self.tokens_seen / 1e6:.0f}M loss {torch.stack([l for l, _ in history]).mean().item():.3f} "
                             f"{show} ema {mean_recall:.3f} {rate:.2f} Mtok/s")
                    last_time, last_tokens = now, self.tokens_seen
                history = []
                if progress >= stage.until or mean_recall > stage.early:
                    if self.stage + 1 < len(stages):
                        self.stage += 1
                        mean_recall = 0.0
                        self.say(f"stage {self.stage}: {stages[self.stage]}")
            if self.step % 2000 == 0:
                self.save()
            if args.max_steps and self.step >= args.max_steps:
                break
        self.save()
        self.save_parts()
        if self.args.examine:
            self.examine()

    def save_parts(self, parts=4):
        """The weights alone, bf16 but for vectors, in pieces small enough to bring back."""
        if self.rank == 0 and self.args.parts:
            names = list(self.model.state_dict().items())
            for i in range(parts):
                piece = {n: (v.bfloat16() if v.ndim > 1 else v).cpu() for n, v in names[i::parts]}
                torch.save(piece, pathlib.Path(self.args.parts) / f"part{i}.pt")

    @torch.no_grad()
    def examine(self):
        """Exact recall of held-back keys per length, selection applied, two ways of sharing it."""
        self.model.eval()
        for length in (1024, 2048, 8192, 16384, 32768):
            if length > self.args.tokens:
                continue
            n_facts, n_repeats, n_questions = curriculum.DENSITY[length][0]
            n_rows = self.args.tokens // length  # compiled for this many tokens
            filler = self.batches.windows(self.batches.corpus, n_rows, length + 1)
            ids, flags, _ = self.batches.recall.rows(filler, n_facts, 0, n_questions, held_back=True, think_share=0.0)
            positions = torch.arange(length, device=self.device)[None].expand(n_rows, length)
            scores = {}
            for name, mode in (("dense", Mode(self.mode.dtype)), ("shared", Mode(self.mode.dtype, sparse=True)),
                               ("all full", Mode(self.mode.dtype, sparse=True, all_full=True))):
                hidden, _ = self.model.trunk(ids[:, :-1], positions, mode)
                _, right = self.model.ops["head"](hidden, self.model.lm_head, ids[:, 1:].reshape(-1))
                scores[name] = round(exact_runs(right.view(n_rows, -1), flags[:, 1:]), 4)
            self.say(f"examine T {length}: {scores}")
        self.model.train()

    def probe(self):
        """Times a few steps at every length; nothing is learned."""
        plan = [(t, "dense") for t in (256, 1024, 4096, 16384, 32768)] + [(4096, "sparse"), (8192, "sparse")] + [
            (t, "flex") for t in (4096, 8192, 16384, 32768)]
        sync = torch.cuda.synchronize if self.device.type == "cuda" else lambda: None
        for length, kind in plan[: self.args.max_steps or None]:
            if kind == "flex" and Attention.flex is None:
                enable_flex()
            sparse, begin = kind != "dense", time.time()
            self.one_step(length, sparse, 0.31)
            sync()
            first, begin = time.time() - begin, time.time()
            for _ in range(6):
                self.one_step(length, sparse, 0.31)
            sync()
            self.say(f"probe T {length} {kind} first {first:.1f} s, then "
                     f"{6 * self.args.tokens * self.world / (time.time() - begin) / 1e6:.2f} Mtok/s at {time.time() - START:.0f} s")


START = time.time()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pack")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--begin", type=float, default=0.0)
    parser.add_argument("--end", type=float, default=1.0)
    parser.add_argument("--tokens", type=int, default=131072, help="per GPU and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-steps", type=int, default=0)
    parser.add_argument("--parts", help="folder for the bf16 weights in four files")
    parser.add_argument("--weights", help="continue from weights alone (last.pt or parts), at --begin")
    parser.add_argument("--stage", type=int, default=0, help="with --weights: the stage to enter")
    parser.add_argument("--cycle", help="lengths taken in turn instead of the stage's own: 512,1024")
    parser.add_argument("--examine", action="store_true", help="measure exact recall at the end")
    parser.add_argument("--flex", action="store_true")
    parser.add_argument("--probe", action="store_true")
    args = parser.parse_args()
    run = Run(args)
    run.say(json.dumps({"parameters": sum(p.numel() for p in run.model.parameters()), "world": run.world}))
    run.probe() if args.probe else run.train()
    if run.world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
