#!/usr/bin/env python3
"""Checks that every #include stays within the layer table of docs/architecture.md.

Usage: python3 tools/lint/layers.py [ROOT]. Prints one line per violation; exit code 1 if any.
"""
import pathlib
import re
import sys

# folder -> folders it may include, besides itself. Keep in step with docs/architecture.md.
LAYERS = {
    "base": [],
    "device": ["base"],
    "kv_cache": ["base", "device"],
    "kernels": ["base", "device", "kv_cache/row_formats"],
    "text": ["base"],
    "model": ["base", "device", "kernels", "kv_cache"],
    "scheduler": ["base", "kv_cache"],
    "transfer": ["base", "device", "kv_cache"],
    "engine": ["base", "device", "kernels", "kv_cache", "model", "scheduler", "transfer"],
    "routing": ["base", "kv_cache"],
    "server": ["base", "text", "scheduler", "engine", "routing"],
    "cluster": ["base", "text", "scheduler", "engine"],
}

# Third-party headers allowed below text, server and cluster: the engine must build on a bare
# machine with a compiler, CMake and nlohmann-json.
CORE = {"base", "device", "kernels", "kv_cache", "model", "scheduler", "transfer", "engine", "routing"}
FOREIGN_IN_CORE = re.compile(r"^(boost|spdlog|fmt|CLI|simdjson|yaml-cpp|pcre2|openssl|xxhash)")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def allowed(folder, included):
    if included.split("/")[0] == folder:
        return True
    return any(included == a or included.startswith(a + "/") for a in LAYERS[folder])


def check_file(path, folder, is_test):
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        where = f"{path}:{number}"
        if quote == '"' and name.split("/")[0] in LAYERS:
            # A test may reach for a lower layer's parts to build its fixtures, never upwards.
            if not allowed(folder, name) and not (is_test and lower(name.split("/")[0], folder)):
                problems.append(f"{where}: {folder} may not include {name}")
        elif folder in CORE and FOREIGN_IN_CORE.match(name):
            problems.append(f"{where}: {folder} stands on the standard library, got <{name}>")
    return problems


def lower(included, folder):
    order = list(LAYERS)
    return order.index(included) < order.index(folder)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    problems, files = [], 0
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh"}:
            continue
        files += 1
        folder = path.relative_to(root / "src").parts[0]
        if folder not in LAYERS:
            problems.append(f"{path}: folder {folder} is not in the layer table")
            continue
        is_test = path.stem.endswith(("_test", "_benchmark")) or "testing" in path.parts
        problems += check_file(path, folder, is_test)
    print("\n".join(problems) if problems else f"layers: {files} files, no violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
