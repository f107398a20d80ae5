"""What is trained when: context lengths, the mix of rows in a batch, and how dense the questions are.

A run is a progress axis from 0 to 1. Stages may end early: when the answers of the stage's own
length are nearly always right, the time left is passed on to the longer contexts.
"""

import dataclasses
import random

import torch

# Per context length: choices of (facts, repeated statements, questions) that fit into a row.
DENSITY = {
    256: [(3, 2, 3), (5, 3, 2), (2, 1, 4), (4, 4, 1), (6, 2, 1)],
    512: [(8, 4, 6), (12, 6, 3), (4, 2, 9), (8, 10, 2), (12, 6, 1)],
    1024: [(16, 8, 12), (24, 16, 6), (6, 3, 20), (24, 10, 1), (20, 6, 2)],
    2048: [(32, 16, 24), (48, 24, 12), (8, 4, 32), (40, 16, 1), (30, 10, 2)],
    4096: [(64, 24, 32), (96, 48, 24), (16, 8, 48), (60, 20, 1), (40, 10, 2)],
    8192: [(96, 48, 48), (160, 64, 32), (24, 8, 64), (80, 24, 1), (40, 10, 2)],
    16384: [(160, 64, 64), (256, 96, 48), (32, 16, 64), (120, 32, 1), (40, 12, 2)],
    32768: [(256, 96, 96), (400, 128, 64), (48, 16, 96), (160, 48, 1), (40, 16, 2)],
}
MAX_POSITION = 131072


@dataclasses.dataclass
class Stage:
    length: int
    until: float  # progress at which the stage ends at the latest
    sparse: bool = False
    early: float = 2.0  # ends once the running recall accuracy passes this
    cycle: tuple = ()  # lengths taken in turn instead of `length` and shorter ones

    def pick(self, step):
        """The context length of a step, and whether it counts as the stage's own."""
        if self.cycle:
            return self.cycle[step % len(self.cycle)], True
        # Three quarters of the steps at the stage's own length, the rest at shorter ones.
        shorter = [s for s in DENSITY if self.length // 8 <= s < self.length]
        if step % 4 != 3 or not shorter:
            return self.length, True
        return shorter[(step // 4) % len(shorter)], False


STAGES = [
    Stage(256, 0.05, early=0.96),
    Stage(512, 0.10, early=0.96),
    Stage(1024, 0.18, early=0.96),
    Stage(2048, 0.27, early=0.97),
    Stage(4096, 0.38, early=0.98),
    Stage(8192, 0.49, early=0.985),
    Stage(16384, 0.57, early=0.985),
    Stage(4096, 0.67, sparse=True, early=0.985),
    Stage(8192, 0.78, sparse=True, early=0.985),
    Stage(16384, 0.56, sparse=True),
    # While the learning rate falls: all lengths, the short ones for text and dialogues.
    Stage(32768, 1.00, sparse=True, cycle=(1024, 4096, 1024, 8192, 512, 2048, 1024, 16384, 4096, 1024, 8192, 32768)),
]
# The indexers imitate the dense attention on every fourth step, from here on every second, and on
# every step once the selection is applied.
INDEXER_FULLY_FROM = 0.30


def learning_rate(progress):
    """Warm-up, plateau, linear decay to a twentieth (of the peak)."""
    if progress < 0.01:
        return max(0.05, progress / 0.01)
    return 1.0 if progress < 0.55 else max(0.03, 1 - (progress - 0.55) / 0.45)


class Batches:
    """Makes super-batches on the device: ids, targets, positions, loss weights, recall flags."""

    def __init__(self, recall, corpus, dialogues, starts, tokens_per_batch, seed, device):
        self.recall, self.corpus, self.dialogues, self.starts = recall, corpus, dialogues, starts
        self.tokens, self.device = tokens_per_batch, device
        self.rng = random.Random(seed)
        self.ready = {}  # length -> recall rows made ahead

    def windows(self, stream, rows, length, starts=None):
        if starts is None:
            at = torch.randint(0, len(stream) - length, (rows,), device=self.device)
        else:
            at = starts[torch.randint(0, len(starts), (rows,), device=self.device)].clamp(max=len(stream) - length)
        return stream[at[:, None] + torch.arange(length, device=self.device)[None]].long()

    def positions(self, rows, length, jumps):
        """arange, or (where `jumps`) arange with up to three leaps that spread the row over the whole
        declared context, so that long distances are met at short lengths (PoSE, arXiv 2309.10400)."""
        base = torch.arange(length, device=self.device)[None].expand(rows, length)
        room = MAX_POSITION - length
        total = torch.exp(torch.rand(rows, 1, device=self.device) * torch.log(torch.tensor(float(room)))).long()
        share = torch.rand(rows, 3, device=self.device)
        leap = (share / share.sum(1, keepdim=True) * total).long()
        cut = torch.randint(1, length, (rows, 3), device=self.device)
        moved = base + ((base[:, None] >= cut[..., None]) * leap[..., None]).sum(1)
        use = (torch.rand(rows, 1, device=self.device) < 0.35) & jumps[:, None]
        return torch.where(use, moved, base)

    def recall_rows(self, n, t):
        """n recall rows of t + 1 tokens. Four batches are made at once: the work is many small
        kernels, whatever the number of rows."""
        waiting = self.ready.setdefault((n, t), [])
        if not waiting:
            n_facts, n_repeats, n_questions = self.rng.choice(DENSITY[t])
            if self.rng.random() < 0.15:
                n_questions, n_repeats = 0, n_repeats + n_questions
            alias = t >= 512 and self.rng.random() < 0.12
            out, flags, tail = self.recall.rows(self.windows(self.corpus, 4 * n, t + 1), n_facts, n_repeats, n_questions, alias)
            waiting += [(o, f, s, alias) for o, f, s in zip(out.split(n), flags.split(n), tail.split(n))]
        return waiting.pop()

    def batch(self, length):
        """One batch of tokens_per_batch / length rows; text rows first."""
        b, t, dev = self.tokens // length, length, self.device
        if b >= 8:
            n_text, n_talk, n_copy = round(0.22 * b), round(0.13 * b), round(0.08 * b)
        else:
            kind = self.rng.random()
            n_text, n_talk, n_copy = (1, 0, 0) if kind < 0.6 else (0, 1, 0) if kind < 0.85 else (0, 0, 1)
        n_recall = b - n_text - n_talk - n_copy
        # t + 1 tokens: inputs and shifted targets.
        ids = self.windows(self.corpus, b, t + 1)
        lm = torch.ones(b, t + 1, device=dev)
        answer = torch.zeros(b, t + 1, device=dev)
        recall_flag = torch.zeros(b, t + 1, dtype=torch.bool, device=dev)
        at = n_text
        if n_text:
            ids[:n_text, :2] = self.recall.raw_header
        if n_talk:
            talk = self.windows(self.dialogues, n_talk, t + 1, self.starts)
            ids[at: at + n_talk] = talk & 0x7FFF
            flags = (talk >> 15).float()
            lm[at: at + n_talk] = 0.3
            answer[at: at + n_talk] += 0.25 * flags / flags.sum().clamp(min=1)
            at += n_talk
        if n_copy:
            span = self.rng.choice([s for s in (24, 48, 96, 192, 384) if 4 * s <= t])
            out, flags = self.recall.copies(ids[at: at + n_copy], span, 8175)
            ids[at: at + n_copy] = out
            lm[at: at + n_copy] = 0.0
            answer[at: at + n_copy] += 0.08 * flags / flags.sum().clamp(min=1)
            at += n_copy
        if n_recall:
            out, flags, tail, alias = self.recall_rows(n_recall, t)
            ids[at:] = out
            lm[at:] = 0.25
            # Answers in chat turns and in repeated statements weigh the same, however many there are.
            asked = flags & (torch.arange(t + 1, device=dev)[None] >= tail[:, None])
            for part in (asked, flags & ~asked):
                answer[at:] += 0.35 * part / part.sum().clamp(min=1)
            recall_flag[at:] = flags & (not alias)
        jumps = torch.ones(b, dtype=torch.bool, device=dev)
        jumps[: n_text + n_talk] = False
        weight = lm[:, 1:] / lm[:, 1:].sum().clamp(min=1) + answer[:, 1:]
        return {"ids": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous(), "weight": weight,
                "text": (lm[:, 1:] == 1.0), "recall": recall_flag[:, 1:],
                "positions": self.positions(b, t, jumps if t >= 512 else torch.zeros_like(jumps))}
