#!/usr/bin/env python3
"""Makes the tiny random checkpoints of testdata/ and their goldens.

    python3 tools/oracle/make_goldens.py [--only NAME] [--out testdata] [--seeds 200]

Needs torch, transformers 5.17, safetensors (a CPU is enough). For each checkpoint it tries seeds until no
selection (index top-k, router, greedy token) is decided by less than a margin, so that a correct engine with
another summation order picks the same sets. Prints what was checked; fails if decode, recomputation and chunked
prefill of transformers itself disagree.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers

from checkpoints import CHECKPOINTS, GENERATION
import golden_runs as runs
from next_token_prediction import MtpLayer
from random_weights import make, stf

INDEX_MARGIN, ROUTER_MARGIN, GREEDY_MARGIN = 2e-5, 5e-5, 5e-3
HIDDEN_POSITIONS = 8
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def write_checkpoint(checkpoint, folder, seed):
    os.makedirs(folder, exist_ok=True)
    for stale in os.listdir(folder):
        if stale.endswith((".safetensors", ".index.json")):
            os.remove(os.path.join(folder, stale))
    write_json(os.path.join(folder, "config.json"), checkpoint.config)
    generation = {**GENERATION, "transformers_version": "5.17.0"}
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        generation[key] = checkpoint.config.get(key)
    write_json(os.path.join(folder, "generation_config.json"), generation)
    stf.write_folder(folder, make(checkpoint, folder, seed), checkpoint.shards)


def random_ids(seed, count, vocabulary):
    return np.random.default_rng([seed, 7]).integers(0, vocabulary, count).tolist()


def margins(model, record, logits, topk_width):
    """Smallest distance at any cut: (index, router)."""
    index = min((float(runs.selection(record["scores"][l], record["topk"][l], topk_width)[1].min())
                 for l in record["scores"]), default=np.inf)
    router = min((runs.router_margin(model.model.layers[l].mlp.gate, record["router"][l])
                  for l in record["router"]), default=np.inf)
    return index, router


def top_two_margin(rows):
    best = rows.topk(2, -1)[0]
    return best[:, 0] - best[:, 1]


def trunk_goldens(checkpoint, model, ids, prefix, out):
    """Adds logits, hidden states, selections and routing of one full forward to `out`."""
    logits, record, final = runs.whole(model, ids)
    width = min(checkpoint.config.get("index_topk", 0), len(ids))
    out[prefix + "input_ids"] = np.array(ids, np.int32)
    out[prefix + "logits"] = logits.numpy()
    for layer in record["scores"]:
        sets, margin, scores = runs.selection(record["scores"][layer], record["topk"][layer], width)
        out[f"{prefix}index.{layer}.topk"], out[f"{prefix}index.{layer}.margin"] = sets, margin
        if len(ids) <= 100:
            out[f"{prefix}index.{layer}.scores"] = scores
    for layer, entry in record["router"].items():
        out[f"{prefix}router.{layer}.experts"], out[f"{prefix}router.{layer}.weights"] = runs.routing(entry)
    positions = np.unique(np.linspace(0, len(ids) - 1, HIDDEN_POSITIONS).astype(np.int32))
    out[prefix + "hidden_positions"] = positions
    for layer, hidden in record["hidden"].items():
        out[f"{prefix}hidden.{layer}"] = hidden[positions].numpy()
    out[prefix + "hidden.final"] = final[positions].numpy()
    return logits, record, final


def same_choices(wanted, got):
    """Per position: 1 where every layer selected the same index set and the same experts in both runs."""
    same = None
    for layer in wanted["scores"]:
        width = wanted["topk"][layer].shape[-1]
        a = runs.selection(wanted["scores"][layer], wanted["topk"][layer], width)[0]
        b = runs.selection(got["scores"][layer], got["topk"][layer], width)[0]
        rows = (a == b).all(-1)
        same = rows if same is None else same & rows
    for layer in wanted["router"]:
        rows = (runs.routing(wanted["router"][layer])[0] == runs.routing(got["router"][layer])[0]).all(-1)
        same = rows if same is None else same & rows
    return same


def bfloat16_goldens(checkpoint, folder, ids, logits, record, out, report):
    model = runs.load(folder, torch.bfloat16, mtp_stem(checkpoint))
    rounded, rounded_record, _ = runs.whole(model, ids)
    out["bf16.logits"] = rounded.numpy()
    same = same_choices(record, rounded_record)
    if same is None:
        same = np.ones(len(ids), bool)
    out["bf16.same_choices"] = same.astype(np.int32)
    rows = (rounded - logits).norm(dim=-1) / logits.norm(dim=-1)
    report["bf16"] = {
        "relative_l2_all_positions": runs.relative_error(rounded, logits),
        "relative_l2_positions_with_same_choices": float(rows[torch.from_numpy(same)].mean()),
        "positions_with_same_choices": int(same.sum()), "positions": len(ids),
        "argmax_agreement": float((rounded.argmax(-1) == logits.argmax(-1)).float().mean()),
        "parameters_kept_in_float32": sorted({".".join(n.split(".")[3:]) for n, p in
                                              list(model.named_parameters()) + list(model.named_buffers())
                                              if p.dtype == torch.float32 and "layers" in n})}


def mtp_stem(checkpoint):
    return f"model.layers.{checkpoint.config['num_hidden_layers']}." if checkpoint.mtp else ""


def mtp_goldens(checkpoint, model, folder, ids, logits, final, out, report):
    layer = MtpLayer(model, folder)
    next_token = int(logits[-1].argmax())
    out["mtp.next_token"] = np.array([next_token], np.int32)
    for key, shared in (("own", False), ("shared", True)):
        prefill, tokens, rows, sets = layer.drafts(ids, final, next_token, 3, shared)
        out["mtp.prefill_logits"] = prefill.detach().numpy()[out["hidden_positions"]]
        out[f"mtp.{key}.draft_ids"] = np.array(tokens, np.int32)
        out[f"mtp.{key}.draft_logits"] = rows.detach().numpy()
        report[f"mtp_draft_margin_{key}"] = float(top_two_margin(rows).min())
        report["mtp_index_margin"] = layer.smallest_margin if np.isfinite(layer.smallest_margin) else None
        if sets[0]:
            for step, chosen in enumerate(sets):
                out[f"mtp.{key}.step{step}.topk"] = np.array(sorted(chosen), np.int32)
        else:
            break


def try_seed(checkpoint, folder, seed, build):
    """(model, margins ok, seeds' margins) of one seed."""
    build(seed)
    model = runs.load(folder, torch.float32, mtp_stem(checkpoint))
    ids = random_ids(seed, checkpoint.tokens, checkpoint.config["vocab_size"])
    width = checkpoint.config.get("index_topk", 0)
    eps_values = [1e-6] + ([checkpoint.config["rms_norm_eps"]] if checkpoint.both_eps else [])
    index = router = np.inf
    for eps in reversed(eps_values):
        runs.set_latent_eps(model, eps)
        logits, record, _ = runs.whole(model, ids)
        found = margins(model, record, logits, min(width, len(ids)))
        index, router = min(index, found[0]), min(router, found[1])
    half = ids[: checkpoint.tokens // 2]
    tokens, rows = runs.greedy(model, half, checkpoint.greedy_steps)
    _, record, _ = runs.whole(model, half + tokens)
    found = margins(model, record, logits, min(width, len(half) + len(tokens)))
    index, router = min(index, found[0]), min(router, found[1])
    greedy = float(top_two_margin(rows).min())
    good = index > INDEX_MARGIN and router > ROUTER_MARGIN and greedy > GREEDY_MARGIN
    return model, good, {"index": index, "router": router, "greedy": greedy}


def make_one(checkpoint, out_root, seeds):
    folder = os.path.join(out_root, checkpoint.name)
    with tempfile.TemporaryDirectory() as scratch:
        source = os.path.join(scratch, "source")
        plain = os.path.join(scratch, "plain") if checkpoint.quantize else folder

        def build(seed):
            if not checkpoint.quantize:
                write_checkpoint(checkpoint, folder, seed)
                return
            import quantize
            write_checkpoint(checkpoint, source, seed)
            shutil.rmtree(folder, ignore_errors=True)
            quantize.convert(source, folder, checkpoint.quantize, checkpoint.exclude)
            shutil.rmtree(plain, ignore_errors=True)
            quantize.dequantize(folder, plain)

        for seed in range(1, seeds + 1):
            model, good, margin = try_seed(checkpoint, plain, seed, build)
            if good:
                break
        else:
            sys.exit(f"{checkpoint.name}: no seed of {seeds} has clear margins; last {margin}")
        report = write_goldens(checkpoint, model, folder, plain, seed, margin)
    if checkpoint.served:
        add_tokenizer(folder, os.path.join(out_root, "tiny-tokenizer"))
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    print(f"{checkpoint.name}: seed {seed}, margins index {margin['index']:.1e} router {margin['router']:.1e} "
          f"greedy {margin['greedy']:.1e}, logit std {report['logit_std']:.2f}, decode vs recompute "
          f"{report['decode_vs_recompute']:.1e}, chunked vs whole {report['chunked_vs_whole']:.1e}, "
          f"{size / 1024:.0f} KiB", flush=True)


def write_goldens(checkpoint, model, folder, plain, seed, margin):
    ids = random_ids(seed, checkpoint.tokens, checkpoint.config["vocab_size"])
    out, report = {}, {}
    runs.set_latent_eps(model, 1e-6)
    logits, record, final = trunk_goldens(checkpoint, model, ids, "", out)
    trunk_goldens(checkpoint, model, ids[: checkpoint.short_tokens], "short.", out)
    report["logit_std"] = float(logits.std())

    half = ids[: checkpoint.tokens // 2]
    tokens, rows = runs.greedy(model, half, checkpoint.greedy_steps)
    again, again_rows = runs.greedy_recomputed(model, half, checkpoint.greedy_steps)
    report["decode_vs_recompute"] = runs.relative_error(rows, again_rows)
    report["chunked_vs_whole"] = runs.relative_error(runs.chunked(model, ids, checkpoint.chunks), logits)
    if tokens != again or report["decode_vs_recompute"] > 1e-4 or report["chunked_vs_whole"] > 1e-4:
        sys.exit(f"{checkpoint.name}: decode, recomputation and chunked prefill disagree: {report}")
    out["greedy.prompt_ids"], out["greedy.ids"] = np.array(half, np.int32), np.array(tokens, np.int32)
    out["greedy.margin"] = top_two_margin(rows).numpy()

    if checkpoint.both_eps:
        runs.set_latent_eps(model, checkpoint.config["rms_norm_eps"])
        other, _, _ = runs.whole(model, ids)
        out["config_eps.logits"] = other.numpy()
        runs.set_latent_eps(model, 1e-6)
        report["eps_changes_logits_by"] = runs.relative_error(other, logits)
    if checkpoint.mtp:
        mtp_goldens(checkpoint, model, plain, ids, logits, final, out, report)
    if checkpoint.bfloat16_run:
        bfloat16_goldens(checkpoint, plain, ids, logits, record, out, report)

    stf.write(os.path.join(folder, "golden.safetensors"), {k: stf.plain(np.ascontiguousarray(v)) for k, v in out.items()})
    write_json(os.path.join(folder, "golden.json"), {
        "purpose": checkpoint.purpose,
        "made_by": f"tools/oracle/make_goldens.py --only {checkpoint.name}",
        "seed": seed, "torch": torch.__version__, "transformers": transformers.__version__,
        "class": type(model).__name__, "compute_dtype": "float32", "attention": "eager",
        "weights": ("dequantised by tools/convert/quantize.py from " + checkpoint.quantize
                    if checkpoint.quantize else "as stored, widened to float32"),
        "latent_norm_eps": {"": 1e-6, **({"config_eps.": checkpoint.config["rms_norm_eps"]}
                                         if checkpoint.both_eps else {})},
        "chunk_lengths_checked": list(checkpoint.chunks),
        "smallest_margins": {k: (v if np.isfinite(v) else None) for k, v in margin.items()}, **report})
    return report


def add_tokenizer(folder, tokenizer):
    if os.path.isdir(tokenizer):
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(os.path.join(tokenizer, name), folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="checkpoint name (repeatable); default all")
    parser.add_argument("--out", default=os.path.join(ROOT, "testdata"))
    parser.add_argument("--seeds", type=int, default=200)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    known = [c.name for c in CHECKPOINTS]
    for name in options.only or []:
        if name not in known:
            sys.exit(f"unknown checkpoint {name}; known: {', '.join(known)}")
    for checkpoint in CHECKPOINTS:
        if not options.only or checkpoint.name in options.only:
            make_one(checkpoint, os.path.abspath(options.out), options.seeds)


if __name__ == "__main__":
    main()
