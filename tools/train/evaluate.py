"""Measures trained weights on the device: recall over length and depth, index sharing, KV row formats,
tool calls, draft acceptance, bits per byte.

    evaluate.py PACK WEIGHTS OUT.json [--what recall,tools,...] [--lengths 2048,...] [--variants bf16,...]

Greedy exactness is measured by teacher forcing: an answer counts when the arg-max is right at every
one of its tokens, its end included, which is when greedy decoding would have produced it.
"""

import argparse
import json
import math
import pathlib
import random
import sys
import time

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import dialogues
import prepare
from export import load_weights
from model import (Config, Mode, Model, finish_dense, finish_moe, index_scores, keep_rows, linear, project, rms_norm,
                   rope_table, select)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "eval"))


# KV row formats: the bytes a cache would hold, decoded again.

def e4m3(x):
    return x.clamp(-448, 448).to(torch.float8_e4m3fn).float()


def fp8_index_key(ik):
    scale = ik.float().abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448
    return (e4m3(ik.float() / scale) * scale).to(ik.dtype)


def fp8_rows(latent, k_rope, ik):
    """656-byte rows: e4m3 latents with one power-of-two scale per 128, bf16 RoPE part."""
    x = latent.float().view(latent.shape[0], -1, 128)
    amax = x.abs().amax(-1, keepdim=True).clamp(min=1e-4)
    scale = torch.exp2(torch.ceil(torch.log2(amax / 448)))
    return (e4m3(x / scale) * scale).view_as(latent).to(latent.dtype), k_rope, fp8_index_key(ik)


def round_up_e4m3(x):
    """The smallest e4m3 number that is not below x (x > 0)."""
    code = x.clamp(max=448).to(torch.float8_e4m3fn)
    bits = code.view(torch.uint8).to(torch.int32)
    bits = (bits + (code.float() < x).int()).clamp(max=0x7E)
    return bits.to(torch.uint8).view(torch.float8_e4m3fn).float()


def e2m1(x):
    """Nearest of 0, .5, 1, 1.5, 2, 3, 4, 6; ties to the even code."""
    grid = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6.0], device=x.device)
    cuts = (grid[1:] + grid[:-1]) / 2
    a = x.abs()
    low = torch.bucketize(a, cuts, right=False)  # a tie stays below the cut ...
    tie = (a == cuts[low.clamp(max=6)]) & (low % 2 == 1)  # ... unless the code below is odd
    return torch.copysign(grid[(low + tie.long()).clamp(max=7)], x)


def nvfp4_rows(latent, k_rope, ik):
    """352-byte rows: e2m1 latents with an e4m3 scale (rounded up) per 16, e4m3 RoPE part, no scale."""
    x = latent.float().view(latent.shape[0], -1, 16)
    scale = round_up_e4m3((x.abs().amax(-1, keepdim=True) / 6).clamp(min=2.0 ** -9))
    return ((e2m1(x / scale) * scale).view_as(latent).to(latent.dtype), e4m3(k_rope.float()).to(k_rope.dtype),
            fp8_index_key(ik))


# variant -> (row format, every layer full, dense attention)
VARIANTS = {"bf16": (keep_rows, False, False), "fp8_656": (fp8_rows, False, False), "nvfp4_352": (nvfp4_rows, False, False),
            "all_full": (keep_rows, True, False), "dense": (keep_rows, False, True)}


class Long:
    """One long sequence at a time, by gathering the selected rows: exact, without any T x T matrix."""

    def __init__(self, model, dtype):
        self.m, self.c, self.dtype = model, model.c, dtype

    def choose(self, iq, ik, iw, chunk=512):
        t, k = ik.shape[0], self.c.index_topk
        out = torch.full((t, min(k, t)), -1, dtype=torch.int32, device=ik.device)
        for start in range(0, t, chunk):
            stop = min(start + chunk, t)
            s = index_scores(iq[None, start:stop].float(), ik[None, :stop].float(), iw[None, start:stop])[0]
            at = torch.arange(start, stop, device=ik.device)[:, None]
            s = s.masked_fill(torch.arange(stop, device=ik.device)[None] > at, float("-inf"))
            top = s.topk(min(k, stop), dim=-1)
            out[start:stop, : top.indices.shape[1]] = torch.where(top.values > float("-inf"), top.indices, -1).int()
        return out

    def attend(self, q, k, v, chosen, chunk=1024):
        scale = self.c.qk_head_dim ** -0.5
        out = []
        for start in range(0, q.shape[0], chunk):
            index = chosen[start: start + chunk].long()
            gone = index < 0
            index = index.clamp(min=0)
            s = torch.einsum("qhd,qkhd->qhk", q[start: start + chunk], k[index]).float() * scale
            p = torch.softmax(s.masked_fill(gone[:, None], float("-inf")), -1).to(v.dtype)
            out.append(torch.einsum("qhk,qkhv->qhv", p, v[index]).flatten(1))
        return torch.cat(out)

    @torch.no_grad()
    def run(self, ids, variant):
        """ids [T] -> final hidden [T, hidden]."""
        rows, all_full, dense = VARIANTS[variant]
        c = self.c
        cos, sin = rope_table(torch.arange(len(ids), device=ids.device), c.qk_rope_head_dim, c.rope_theta, self.dtype)
        x = F.embedding(ids, self.m.embed).to(self.dtype)
        chosen = None
        for layer, kind in zip(self.m.layers, c.indexer_types):
            q, k, v, iq, ik, iw = project(x, cos, sin, layer.attention_weights(), c, rows)
            if dense:
                a, b, w = (y.transpose(0, 1)[None] for y in (q, k, v))
                out = F.scaled_dot_product_attention(a, b, w, is_causal=True)[0].transpose(0, 1).flatten(1)
            else:
                if kind == "full" or all_full:
                    chosen = self.choose(iq, ik, iw)
                out = self.attend(q, k, v, chosen)
            x = finish_dense(x, out, layer.mlp_weights(), c) if layer.dense else finish_moe(x, out, layer.mlp_weights(), c)[0]
        return rms_norm(x, self.m.norm, c.rms_norm_eps)


class Evaluation:
    def __init__(self, args):
        self.args = args
        self.device = torch.device(args.device)
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        pack = self.pack = pathlib.Path(args.pack)
        self.tokenizer = Tokenizer.from_file(str(pack / "tokenizer.json"))
        self.model = Model(Config.load(pack / "config.json"))
        self.model.load_state_dict(load_weights(args.weights))
        with torch.no_grad():  # what will be shipped
            for p in self.model.parameters():
                p.copy_(p.bfloat16().float())
        self.model.to(self.device).eval()
        self.long = Long(self.model, self.dtype)

    def tokens(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def recall(self):
        """Per variant and length: exact answers by depth tenth. Many questions share one document."""
        import needles
        out = {}
        for length in self.args.lengths:
            docs = max(2, min(8, 131072 // length)) if self.args.docs is None else self.args.docs
            n_needles = 20 if length <= 4096 else 40
            prepared = []
            for d in range(docs):
                text, hidden = needles.make_document(1000 * length + d, int(length * 3.6), n_needles,
                                                    placement=self.args.placement)
                random.Random(d).shuffle(hidden)
                ids, spans = [], []
                for i, n in enumerate(hidden):
                    ids += self.tokens((n.question if i else "\n" + n.question) + "<|assistant|></think>")
                    answer = self.tokens(n.value + "<|user|>")
                    spans.append((len(ids), len(ids) + len(answer), n))
                    ids += answer
                body = self.tokens("[gMASK]<sop><|user|>" + text)
                prepared.append((body + ids, len(body), spans))
            for variant in self.args.variants:
                begin, table, kinds = time.time(), {}, {}
                for ids, offset, spans in prepared:
                    ids_t = torch.tensor(ids, device=self.device)
                    hidden = self.long.run(ids_t, variant)
                    best = linear(hidden[offset - 1: -1], self.model.lm_head).argmax(-1)
                    right = (best == ids_t[offset:]).tolist()
                    for a, b, n in spans:
                        ok = all(right[a:b])
                        table.setdefault(min(9, int(n.depth * 10)), []).append(ok)
                        kinds.setdefault(n.kind, []).append(ok)
                every = [ok for oks in table.values() for ok in oks]
                entry = {"exact": sum(every) / len(every), "questions": len(every),
                         "tokens": sum(len(p[0]) for p in prepared) // docs,
                         "by_depth": [round(sum(table[i]) / len(table[i]), 4) if i in table else None for i in range(10)],
                         "by_kind": {k: round(sum(v) / len(v), 4) for k, v in kinds.items()}}
                out.setdefault(variant, {})[length] = entry
                print(f"recall {variant} {length}: {entry['exact']:.4f} of {entry['questions']}, {entry['tokens']} tokens, "
                      f"{entry['by_kind']} depths {entry['by_depth']} {time.time() - begin:.1f} s", flush=True)
        return out

    def batches(self, sequences, size=16):
        order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
        for start in range(0, len(order), size):
            chunk = order[start: start + size]
            t = max(len(sequences[i]) for i in chunk)
            ids = torch.zeros(len(chunk), t, dtype=torch.int64)
            for row, i in enumerate(chunk):
                ids[row, : len(sequences[i])] = torch.tensor(sequences[i])
            yield chunk, ids.to(self.device)

    @torch.no_grad()
    def forward(self, ids):
        b, t = ids.shape
        positions = torch.arange(t, device=self.device)[None].expand(b, t)
        return self.model.trunk(ids, positions, Mode(self.dtype, sparse=True))[0].view(b, t, -1)

    def tools(self):
        """Held-back tool names and values; the right name and arguments, nothing else, then a stop."""
        rng = random.Random(99)
        prompts, answers, details = [], [], []
        for _ in range(self.args.prompts):
            tools, user, name, arguments = dialogues.single_tool(rng, held_back=True)
            prompts.append(self.tokens(f"[gMASK]<sop>{dialogues.system_of(tools)}<|user|>{user}<|assistant|></think>"))
            answers.append(self.tokens(dialogues.tag_call(name, arguments) + "<|observation|>"))
            details.append((name, arguments))
        right, missed = 0, []
        for chunk, ids in self.batches([p + a for p, a in zip(prompts, answers)]):
            best = linear(self.forward(ids), self.model.lm_head).argmax(-1)
            for row, i in enumerate(chunk):
                start, n = len(prompts[i]), len(answers[i])
                got = best[row, start - 1: start - 1 + n].tolist()
                if got == answers[i]:
                    right += 1
                elif len(missed) < 12:
                    missed.append({"expected": self.tokenizer.decode(answers[i], skip_special_tokens=False),
                                   "got": self.tokenizer.decode(got, skip_special_tokens=False)})
        out = {"exact": right / len(prompts), "prompts": len(prompts), "missed": missed}
        print(f"tool calls {out['exact']:.4f} of {len(prompts)}", flush=True)
        return out

    @torch.no_grad()
    def bits(self):
        """Bits per byte on held-back files, windows of 2,048 tokens, selection applied."""
        stream = torch.from_numpy(prepare.load(self.pack / "held_back.xz").astype("int64"))
        n = min(self.args.windows, len(stream) // 2049)
        picked = torch.stack([stream[int(i * (len(stream) - 2049) / n):][:2049] for i in range(n)])
        nats, n_bytes = 0.0, 0
        for start in range(0, n, 16):
            ids = picked[start: start + 16].to(self.device)
            logits = linear(self.forward(ids[:, :-1]), self.model.lm_head).float()
            nats += F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum").item()
            for row in ids[:, 1:].tolist():
                n_bytes += len(self.tokenizer.decode(row).encode())
        out = {"bits_per_byte": nats / math.log(2) / n_bytes, "nats_per_token": nats / (n * 2048), "tokens": n * 2048}
        print(f"held-back {out}", flush=True)
        return out

    @torch.no_grad()
    def acceptance(self, drafts=3, prompt=256, new=128):
        """Greedy continuation of held-back code with `drafts` drafts per step, and the same count on
        the held-back text itself. Exact: drafts attend to the step-0 rows of the verified positions
        and to the rows of their own chain; the selection is that of the last verified position."""
        stream = torch.from_numpy(prepare.load(self.pack / "held_back.xz").astype("int64"))
        n = self.args.continuations
        starts = [int(i * (len(stream) - 2000) / n) for i in range(n)]
        real = torch.stack([stream[s: s + prompt + new] for s in starts]).to(self.device)
        real[:, :2] = torch.tensor(self.tokens("[gMASK]<sop>"), device=self.device)
        ids = real[:, :prompt].clone()
        for _ in range(new):
            best = linear(self.forward(ids)[:, -1], self.model.lm_head).argmax(-1)
            ids = torch.cat([ids, best[:, None]], 1)
        out = {}
        for name, sequence in (("greedy", ids), ("held-back text", real)):
            hits = self.draft_hits(sequence, drafts)  # [steps, n, T]
            per_step, counts = [], torch.zeros(drafts)
            for row in range(n):
                # Position i: token i + 1 is verified; draft k guesses token i + 2 + k.
                i = prompt - 1
                while i < sequence.shape[1] - drafts - 2:
                    good = 0
                    while good < drafts and hits[good, row, i]:
                        good += 1
                    counts[:good] += 1
                    per_step.append(good + 1)
                    i += good + 1
            out[name] = {"tokens_per_step": sum(per_step) / len(per_step), "steps": len(per_step),
                         "accepted_by_position": [round(x, 4) for x in (counts / len(per_step)).tolist()]}
            print(f"drafts on {name}: {out[name]}", flush=True)
        return out

    def draft_hits(self, ids, drafts):
        """hits[k, row, i]: the k-th draft made after position i is token i + 2 + k, all earlier ones right."""
        m, c = self.model, self.model.c
        b, t = ids.shape
        hidden = self.forward(ids).reshape(b * t, -1)
        cos, sin = rope_table(torch.arange(t, device=self.device).repeat(b), c.qk_rope_head_dim, c.rope_theta, self.dtype)
        nxt = F.pad(ids[:, 1:], (0, 1))
        e = rms_norm(F.embedding(nxt.reshape(-1), m.embed).to(self.dtype), m.enorm, c.rms_norm_eps)
        at = torch.arange(t, device=self.device)
        keys, values, hits, mask0 = [], [], [], None
        for step in range(drafts):
            z = linear(torch.cat([e, rms_norm(hidden, m.hnorm, c.rms_norm_eps)], -1), m.eh_proj)
            q, k, v, iq, ik, iw = (y.view(b, t, *y.shape[1:]) for y in project(z, cos, sin, m.mtp_layer.attention_weights(), c))
            keys.append(k)
            values.append(v)
            if step == 0:
                mask0 = select(iq, ik, iw, c.index_topk)
            # A query at index j of this step stems from position j - step.
            base = mask0 if step == 0 else F.pad(mask0[:, :-step], (0, 0, step, 0))
            s = torch.einsum("bqhd,bkhd->bhqk", q, keys[0]).float().masked_fill(~base[:, None], float("-inf"))
            own = [torch.einsum("bqhd,bqhd->bhq", q, F.pad(keys[i], (0, 0, 0, 0, step - i, 0))[:, :t]).float()[..., None]
                   for i in range(1, step + 1)]
            p = torch.softmax(torch.cat([s] + own, -1) * c.qk_head_dim ** -0.5, -1).nan_to_num().to(v.dtype)
            o = torch.einsum("bhqk,bkhv->bqhv", p[..., :t], values[0])
            for i in range(1, step + 1):
                moved = F.pad(values[i], (0, 0, 0, 0, step - i, 0))[:, :t]
                o = o + p[..., t + i - 1].transpose(1, 2)[..., None] * moved
            x, _ = finish_moe(z, o.reshape(b * t, -1), m.mtp_layer.mlp_weights(), c)
            g = rms_norm(x, m.mtp_norm, c.rms_norm_eps)
            best = linear(g, m.lm_head).argmax(-1).view(b, t)
            # At index j = i + step the guess is token j + 2.
            ok = best == F.pad(ids[:, 2:], (0, 2), value=-1)
            hits.append(F.pad(ok[:, step:], (0, step)))
            hidden = F.pad(g.view(b, t, -1)[:, :-1], (0, 0, 1, 0)).reshape(b * t, -1)
        return torch.stack(hits).cpu()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pack")
    parser.add_argument("weights")
    parser.add_argument("out")
    parser.add_argument("--what", default="recall,tools,bits,acceptance")
    parser.add_argument("--lengths", default="2048,4096,8192,16384,32768,65536,131072")
    parser.add_argument("--variants", default="bf16,fp8_656,nvfp4_352,all_full")
    parser.add_argument("--docs", type=int)
    parser.add_argument("--placement", choices=("word", "any"), default="word")
    parser.add_argument("--prompts", type=int, default=500)
    parser.add_argument("--windows", type=int, default=128)
    parser.add_argument("--continuations", type=int, default=64)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.lengths = [int(x) for x in args.lengths.split(",")]
    args.variants = args.variants.split(",")
    torch.backends.cuda.matmul.allow_tf32 = True  # exact for products of bf16 values
    evaluation, result = Evaluation(args), {}
    for name in args.what.split(","):
        begin = time.time()
        result[name] = getattr(evaluation, name)()
        print(f"{name} took {time.time() - begin:.1f} s", flush=True)
        pathlib.Path(args.out).write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
