#!/usr/bin/env python3
"""Small rules for our own text: file sizes, names we do not use, header openings.

Usage: python3 tools/lint/text_rules.py. Prints one line per violation; exit code 1 if any.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BAD_NAMES = re.compile(r"(^|_)(utils?|common|misc|manager|helpers?)($|_)")
MAX_LINES = 900  # a place where a file surely does two things


def tracked(*patterns):
    done = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return [ROOT / line for line in done.stdout.decode().splitlines() if line]


def main():
    problems = []
    for path in tracked("src/*", "apps/*", "tools/*", "tests/*"):
        if not path.exists():
            continue
        name = path.relative_to(ROOT)
        for part in (*name.parts[:-1], path.stem):
            if BAD_NAMES.search(part):
                problems.append(f"{name}: '{part}' hides what it holds")
        if path.suffix not in {".h", ".cpp", ".cu", ".cuh", ".py", ".sh"}:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if len(lines) > MAX_LINES:
            problems.append(f"{name}: {len(lines)} lines, at most {MAX_LINES}")
        if path.suffix == ".h" and (not lines or not lines[0].startswith("//")):
            problems.append(f"{name}: a header opens with what it is, who owns it, which thread")
    print("\n".join(problems) if problems else "text rules: no violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
