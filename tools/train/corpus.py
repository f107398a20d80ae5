"""Collects the text and code that the tokenizer and the model are trained on.

Only permissively licensed Python packages that are installed beside the training code, and Python's
own standard library, are read: SOURCES names each with its licence. Lines that carry an e-mail
address, an author or a copyright notice are dropped, so that no personal data enters the model.
Every 50th file (by hash of its path) is held back: it is never trained on and serves for bits per
byte and for the acceptance of drafts.
"""

import hashlib
import pathlib
import re
import sysconfig

# package -> licence as its metadata states it.
SOURCES = {
    "stdlib": "PSF-2.0",
    "sympy": "BSD-3-Clause",
    "numpy": "BSD-3-Clause",
    "torch": "BSD-3-Clause",
    "torchgen": "BSD-3-Clause",
    "transformers": "Apache-2.0",
    "matplotlib": "PSF-based (matplotlib licence)",
    "mpl_toolkits": "PSF-based (matplotlib licence)",
    "networkx": "BSD-3-Clause",
    "pygments": "BSD-2-Clause",
    "pip": "MIT",
    "setuptools": "MIT",
    "openai": "Apache-2.0",
    "fontTools": "MIT",
    "huggingface_hub": "Apache-2.0",
    "pydantic": "MIT",
    "rich": "MIT",
    "jinja2": "BSD-3-Clause",
    "mpmath": "BSD-3-Clause",
    "triton": "MIT",
    "PIL": "MIT-CMU",
    "fsspec": "BSD-3-Clause",
    "httpx": "BSD-3-Clause",
    "click": "BSD-3-Clause",
    "typer": "MIT",
    "safetensors": "Apache-2.0",
    "tokenizers": "Apache-2.0",
    "anyio": "MIT",
    "yaml": "MIT",
    "dateutil": "Apache-2.0 / BSD-3-Clause",
    "packaging": "Apache-2.0 / BSD-2-Clause",
}
# At most this many bytes from one package: the rest would be more of the same.
MAX_BYTES_PER_PACKAGE = 18_000_000
SUFFIXES = {".py", ".pyi", ".md", ".rst", ".txt"}
_PERSONAL = re.compile(r"[\w.+-]+@[\w-]+\.\w+|copyright|\bauthors?\b|maintainer|licen[sc]e", re.IGNORECASE)


def _clean(text):
    lines = [line.rstrip() for line in text.splitlines() if not _PERSONAL.search(line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def _roots():
    paths = sysconfig.get_paths()
    site = pathlib.Path(paths["purelib"])
    for name in SOURCES:
        root = pathlib.Path(paths["stdlib"]) if name == "stdlib" else site / name
        if root.is_dir():
            yield name, root


def is_held_back(key):
    """True for the two percent of files (by hash of their path) that are never trained on."""
    return int(hashlib.sha256(key.encode()).hexdigest(), 16) % 50 == 0


def documents():
    """Yields (package, relative path, held_back, text); duplicates by content are yielded once."""
    seen = set()
    for name, root in _roots():
        files = [p for p in root.rglob("*") if p.suffix in SUFFIXES and p.is_file()]
        if name == "stdlib":
            files = [p for p in files if "site-packages" not in p.parts and "test" not in p.parts
                     and "idle_test" not in p.parts and "lib2to3" not in p.parts]
        files.sort(key=lambda p: hashlib.sha256(str(p.relative_to(root)).encode()).hexdigest())
        taken = 0
        for path in files:
            relative = f"{name}/{path.relative_to(root)}"
            try:
                text = path.read_text(encoding="utf-8")
            except (UnicodeDecodeError, OSError):
                continue
            if not 200 <= len(text) <= 400_000:
                continue
            digest = hashlib.sha256(text.encode()).digest()
            if digest in seen:
                continue
            seen.add(digest)
            text = _clean(text)
            taken += len(text)
            if taken > MAX_BYTES_PER_PACKAGE:
                break
            yield name, relative, is_held_back(relative), text
