"""Tokenises corpus and dialogues into the packed arrays that training reads.

Usage: prepare.py MODEL_DIR PACK_DIR [dialogues]
Writes corpus.xz and held_back.xz (uint16 token streams), dialogues.xz (uint16, the top bit marks
answer tokens), dialogue_starts.npy, tokenizer.json, config.json and sources.json (files and bytes per
package with the licence).
"""

import json
import lzma
import pathlib
import shutil
import sys

import numpy as np
from tokenizers import Tokenizer

import corpus
import dialogues


def save(path, tokens):
    path.write_bytes(lzma.compress(np.asarray(tokens, dtype=np.uint16).tobytes(), preset=1))


def load(path):
    return np.frombuffer(lzma.decompress(pathlib.Path(path).read_bytes()), dtype=np.uint16)


def main():
    model_dir, pack = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 60_000
    pack.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
    end = tokenizer.token_to_id("<|endoftext|>")
    streams, sources = {False: [], True: []}, {}
    held_files = []
    pending = []

    def flush():
        for (held_back, _), encoded in zip(pending, tokenizer.encode_batch([t for _, t in pending])):
            streams[held_back].append(np.asarray(encoded.ids + [end], dtype=np.uint16))
        pending.clear()

    for name, relative, held_back, text in corpus.documents():
        entry = sources.setdefault(name, {"licence": corpus.SOURCES[name], "files": 0, "bytes": 0})
        entry["files"] += 1
        entry["bytes"] += len(text.encode())
        if held_back:
            held_files.append(relative)
        pending.append((held_back, text))
        if len(pending) == 512:
            flush()
    flush()
    for held_back, name in ((False, "corpus.xz"), (True, "held_back.xz")):
        stream = np.concatenate(streams[held_back])
        print(name, len(stream), "tokens")
        save(pack / name, stream)
    ids, flags, starts = dialogues.generate(tokenizer, count, seed=1)
    print("dialogues", len(ids), "tokens")
    save(pack / "dialogues.xz", np.asarray(ids, dtype=np.uint16) | (np.asarray(flags, dtype=np.uint16) << 15))
    np.save(pack / "dialogue_starts.npy", np.asarray(starts, dtype=np.int32))
    (pack / "sources.json").write_text(json.dumps({"packages": sources, "held_back": held_files}, indent=1) + "\n")
    for name in ("tokenizer.json", "config.json"):
        shutil.copy(model_dir / name, pack / name)


if __name__ == "__main__":
    main()
