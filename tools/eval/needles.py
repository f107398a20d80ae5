"""Documents with facts hidden in them, as text: shared by the recall evaluation over HTTP and by the
trainer's own evaluation. Standard library only; everything follows from the seed.

The wording comes from tools/train/facts.py, so that questions look as in training; the key pairs are
the held-back ones. The haystack is the source text of this Python's standard library.
"""

import dataclasses
import json
import pathlib
import random
import sys
import sysconfig

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "train"))
import facts  # noqa: E402

WORDS = json.loads((pathlib.Path(__file__).parent / "words.json").read_text())
KINDS = ("phrase", "code", "signature")


@dataclasses.dataclass
class Needle:
    depth: float  # where the statement begins, as a share of the document
    kind: str
    key: str
    value: str
    statement: str
    question: str
    raw_prompt: str  # a second statement cut before the value: what /v1/completions continues


def random_value(rng, kind):
    if kind == "signature":
        return ", ".join(rng.choice(WORDS) for _ in range(rng.choice([2, 2, 3])))
    roll = rng.random()
    if roll < 0.5:
        return "".join(rng.choice("0123456789") for _ in range(rng.randint(4, 7)))
    if roll < 0.7:
        return " ".join(rng.choice(WORDS) for _ in range(rng.choice([2, 2, 3])))
    if roll < 0.9:
        return "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(2)) + f"-{rng.randint(0, 9999):04d}"
    return f"{rng.randint(10, 99)}.{rng.randint(1, 9)}.{rng.randint(10, 99)}"


def random_key(rng, kind):
    while True:
        a, b = rng.randrange(len(WORDS)), rng.randrange(len(WORDS))
        if facts.is_held_back_pair(a, b):
            break
    if kind == "phrase":
        return f"{WORDS[a]} {WORDS[b]}"
    if kind == "code" and rng.random() < 0.25:
        return f"{WORDS[a]}_{WORDS[b]}".upper()
    return f"{WORDS[a]}_{WORDS[b]}" + (f"_{rng.choice(WORDS)}" if rng.random() < 0.3 else "")


def render(template, key, value):
    """A statement, and the same statement cut before its value."""
    before, between, after, key_style, value_style = template
    lead = (" " if key_style == "lead" else "") + key
    if template in facts.SIGNATURES:
        head = before + lead + between
        return head + "(" + value + after, head
    head = before + lead + between
    return head + (" " if value_style == "lead" else "") + value + after, head


def make_needle(rng, depth, kinds=KINDS):
    kind = rng.choice(kinds)
    key, value = random_key(rng, kind), random_value(rng, kind)
    templates = {"phrase": facts.PHRASE_STATEMENTS, "code": facts.CODE_STATEMENTS, "signature": facts.SIGNATURES}[kind]
    ask = rng.choice(facts.SIGNATURE_QUESTIONS if kind == "signature" else facts.QUESTIONS)
    return Needle(depth, kind, key, value, render(rng.choice(templates), key, value)[0],
                  f"{ask[0]} {key}{ask[1]}", render(rng.choice(templates), key, value)[1])


def haystack_lines(rng, n_chars):
    """About n_chars of standard-library source, whole lines."""
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    files = sorted(p for p in root.glob("*.py")) + sorted(root.glob("*/[a-z]*.py"))
    files = [p for p in files if not {"site-packages", "test", "idlelib", "lib2to3"} & set(p.parts)]
    lines, total = [], 0
    while total < n_chars:
        text = rng.choice(files).read_text(encoding="utf-8", errors="ignore").splitlines()
        for line in text:
            line = line.rstrip()
            if line or (lines and lines[-1]):
                lines.append(line)
                total += len(line) + 1
            if total >= n_chars:
                break
    return lines


def place_after_word(lines, at):
    """The nearest place at or after `at` that follows a line ending in a letter or digit. (Elsewhere
    the tokenizer joins the line's last symbols with the line break into one token.)"""
    while at < len(lines) and not (at > 0 and lines[at - 1][-1:].isalnum()):
        at += 1
    return at


def make_document(seed, n_chars, n_needles, kinds=KINDS, placement="word"):
    """(text, needles): about n_chars in all, one needle in each of n_needles equal slices. Placement
    "word" puts a needle after a line that ends in a letter or digit, "any" after any line."""
    rng = random.Random(seed)
    needles = [make_needle(rng, (i + rng.random()) / n_needles, kinds) for i in range(n_needles)]
    lines = haystack_lines(rng, max(0, n_chars - sum(len(n.statement) for n in needles)))
    places = sorted(((int(n.depth * len(lines)), n) for n in needles), key=lambda p: p[0], reverse=True)
    for at, needle in places:
        lines.insert(place_after_word(lines, at) if placement == "word" else at, needle.statement.rstrip("\n"))
    return "\n".join(lines) + "\n", needles
