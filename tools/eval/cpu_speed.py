"""Speed of one sequence on the CPU: Baton beside transformers, same weights, same threads, greedy.

    python3 tools/eval/cpu_speed.py [--contexts 1024,2048] [--rounds 3]

Both get a prompt of random tokens and generate `--decode` more (transformers 12). Prefill is the time
to the first token; decode is the median time between tokens after it. The two take turns, so that what else
runs on the machine meets both; the best round of each is reported, with the median.
"""

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time

import torch
import transformers


def run_baton(args, context, decode):
    """Report of one run, and the CPU seconds it took with loading."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [args.binary, "bench", "latency", "--model", args.model,
                   "--input-len", str(context), "--output-len", str(decode), "--num-iters", "1",
                   "--num-iters-warmup", "0", "--cpu-threads", str(args.threads),
                   "--output-json", report.name]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=600)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return json.load(open(report.name)), used


def measure_baton(args, context):
    report, used = run_baton(args, context, args.decode)
    if not args.cpu_clock:
        return report["ttft_ms"]["p50"], report["itl_ms"]["p50"]
    # What loading takes, and the first token, fall out of differences.
    _, loading = run_baton(args, 1, 1)
    _, prefill = run_baton(args, context, 1)
    return 1e3 * (prefill - loading), 1e3 * (used - prefill) / (args.decode - 1)


def measure_transformers(model, args, context):
    clock = time.process_time if args.cpu_clock else time.perf_counter
    tokens = torch.randint(256, model.config.vocab_size * 3 // 4, (1, context))
    gaps = []
    with torch.inference_mode():
        start = clock()
        out = model(tokens, use_cache=True, logits_to_keep=1)
        token = out.logits[:, -1:].argmax(-1)
        prefill = clock() - start
        for _ in range(min(args.decode, 12)):
            start = clock()
            out = model(token, past_key_values=out.past_key_values, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
            gaps.append(clock() - start)
    return 1e3 * prefill, 1e3 * statistics.median(gaps)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="build/release/baton")
    parser.add_argument("--model", default="models/baton-mini")
    parser.add_argument("--contexts", default="1024,2048")
    parser.add_argument("--decode", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="bfloat16", help="of the rival's arithmetic")
    parser.add_argument("--cpu-clock", action="store_true",
                        help="CPU time instead of elapsed: for a busy machine, with --threads 1")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rival = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=getattr(torch, args.dtype))
    rival.eval()
    measure_transformers(rival, args, 64)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, "
          f"{args.dtype}, {args.threads} threads, {'CPU' if args.cpu_clock else 'elapsed'} time; "
          f"ms, best (median) of {args.rounds} rounds")
    print("| context | engine | prefill ms | tokens/s | decode ms | tokens/s |")
    print("|---|---|---|---|---|---|")
    for context in [int(c) for c in args.contexts.split(",")]:
        results = {"Baton": [], "transformers": []}
        for _ in range(args.rounds):
            results["Baton"].append(measure_baton(args, context))
            results["transformers"].append(measure_transformers(rival, args, context))
        for engine, rounds in results.items():
            prefill, gap = min(r[0] for r in rounds), min(r[1] for r in rounds)
            middle = [statistics.median(r[i] for r in rounds) for i in (0, 1)]
            print(f"| {context} | {engine} | {prefill:.0f} ({middle[0]:.0f}) "
                  f"| {1e3 * context / prefill:.0f} | {gap:.2f} ({middle[1]:.2f}) "
                  f"| {1e3 / gap:.1f} |", flush=True)


if __name__ == "__main__":
    main()
