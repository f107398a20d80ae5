"""What NumPy takes to sample one token, for comparison with `engine_benchmark`'s host sampler.

    python3 tools/eval/sampler_speed.py

The same rows (154,880 logits, normal or peaked), the same requests, one thread, CPU time. Written as one
would write it in NumPy: whole-array operations, a full argsort for top_p, a partition for top_k.
"""

import time

import numpy as np

VOCAB = 154880
ROWS = 200


def pick(weights, uniform):
    sums = np.cumsum(weights, dtype=np.float64)
    return int(np.searchsorted(sums, uniform * sums[-1], side="right"))


def temperature(logits, uniform):
    return pick(np.exp(logits - logits.max()), uniform)


def top_p(logits, uniform, share=0.95):
    weights = np.exp(logits - logits.max())
    order = np.argsort(-weights)
    sums = np.cumsum(weights[order], dtype=np.float64)
    kept = order[: np.searchsorted(sums, share * sums[-1]) + 1]
    return int(kept[pick(weights[kept], uniform)])


def best(logits, count):
    tokens = np.argpartition(logits, VOCAB - count)[VOCAB - count:]
    return tokens[np.argsort(-logits[tokens])]


def top_k_top_p(logits, uniform, share=0.95, count=40):
    tokens = best(logits, count)
    weights = np.exp(logits[tokens] - logits[tokens[0]])
    sums = np.cumsum(weights, dtype=np.float64)
    kept = np.searchsorted(sums, share * sums[-1]) + 1
    return int(tokens[pick(weights[:kept], uniform)])


def greedy_logprobs(logits, _, count=5):
    largest = logits.max()
    total = largest + np.log(np.sum(np.exp(logits - largest), dtype=np.float64))
    tokens = best(logits, count)
    return int(np.argmax(logits)), logits[tokens] - total


def main():
    random = np.random.default_rng(1)
    normal = random.normal(0, 3, VOCAB).astype(np.float32)
    peaked = normal.copy()
    peaked[random.integers(0, VOCAB, 20)] = random.normal(18, 3, 20)
    print("numpy", np.__version__)
    for name, logits in (("normal", normal), ("peaked", peaked)):
        for sampler in (temperature, top_p, top_k_top_p, greedy_logprobs):
            start = time.process_time()
            for i in range(ROWS):
                sampler(logits, (i + 0.5) / ROWS)
            used = (time.process_time() - start) / ROWS
            print(f"{name} logits, {sampler.__name__:16} cpu {used * 1e6:8.0f} us per token")


if __name__ == "__main__":
    main()
