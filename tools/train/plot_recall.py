"""Draws recall over length and depth for the model card: plot_recall.py EVALUATION.json OUT.png"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

VARIANT_NAMES = {"bf16": "bf16 rows", "fp8_656": "FP8 rows (656 B)", "nvfp4_352": "NVFP4 rows (352 B)",
                 "all_full": "bf16, every layer full"}


def main():
    result = json.load(open(sys.argv[1]))
    recall = result.get("device", result)["recall"]
    lengths = sorted(recall["bf16"], key=int)
    grid = np.array([[np.nan if x is None else x for x in recall["bf16"][n]["by_depth"]] for n in lengths])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), width_ratios=(1.15, 1))
    image = left.imshow(grid.T, origin="lower", aspect="auto", vmin=0, vmax=1, cmap="viridis")
    left.set_xticks(range(len(lengths)), [f"{int(n) // 1024}K" for n in lengths])
    left.set_yticks(range(10), [f"{10 * i}-{10 * i + 10} %" for i in range(10)])
    left.set_xlabel("context"), left.set_ylabel("depth of the fact"), left.set_title("exact recall, bf16 rows")
    figure.colorbar(image, ax=left)
    for variant, name in VARIANT_NAMES.items():
        if variant in recall:
            x = sorted(recall[variant], key=int)
            right.plot([recall[variant][n]["tokens"] for n in x], [recall[variant][n]["exact"] for n in x], marker="o", label=name)
    right.set_xscale("log", base=2), right.set_ylim(0, 1.02), right.grid(alpha=0.3)
    right.set_xlabel("prompt tokens"), right.set_ylabel("exact recall"), right.legend(fontsize=7, loc="lower left")
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=80)


if __name__ == "__main__":
    main()
