"""Checkpoint folders with one file damaged: a sound run, or one line that names the file and exit code 2.

Seeds are fixed, so that a failure can be repeated. BATON_MUTATIONS says how many damaged folders are
tried (more than the default for a search), BATON_MUTATION_SEED where the search begins.
"""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import threading
import unittest

from baton_process import BATON, ROOT, write_byte_tokenizer

MUTATIONS = int(os.environ.get("BATON_MUTATIONS", "120"))
FIRST_SEED = int(os.environ.get("BATON_MUTATION_SEED", "1"))
SECONDS = 10
RESIDENT_BYTES = 1 << 30  # of a child; sanitizers included
FOLDERS = ("glm-dsa-list", "qwen3", "qwen3-moe", "glm-dsa-nvfp4-modelopt", "glm-dsa-nvfp4-ct",
           "glm-dsa-fp8-block", "deepseek-v3-yarn", "glm-dsa-geometry", "glm4-moe-lite")
ODD = [None, True, False, 0, 1, -1, 2, 3, 7, 63, 65, 255, 4095, 4097, 2**15, 2**20, 2**24, 2**31 - 1, 2**31,
       2**32 + 1, 2**53, 2**63 - 1, 2**63, 2**64, -2**63, 0.5, 1.5, -0.0, 1e-300, 1e15, 1e308, -1e308, "", "x",
       "full", "F" * 50, "re:(", "re:((.*)*)*x", "*[a", "\0", "😀" * 10, "../x", "/etc/passwd", "a/b",
       [], [[]], {}, {"a": 1}, [None], [1, "x"], [0], [-1], [2**40] * 3, [1e308], {"": None}, [[[[1]]]]]
TEXTS = (b"", b"{", b"null", b"[]", b"3", b'"x"', b"{}", b"\xff\xfe{}", b"\0" * 100, b"[" * 100000, b'{"a":' * 100000,
         b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
         b'{"a":' + b"9" * 5000 + b"}", b"{" + b",".join(b'"%d":0' % i for i in range(100000)) + b"}")


def paths(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from paths(child, path + (key,))


def changed_json(value, pick):
    """`value` with a few of its parts replaced, removed or doubled."""
    value = json.loads(json.dumps(value))
    for _ in range(pick.choice([1, 1, 1, 2, 3])):
        every = list(paths(value))
        # Large lists (a vocabulary) must not hide the few keys that matter.
        path = pick.choice(every if pick.random() < 0.3 else [p for p in every if len(p) <= 2] or every)
        if not path:
            return pick.choice(ODD)
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        what = pick.random()
        if what < 0.15:
            del holder[path[-1]]
        elif what < 0.25 and isinstance(holder, dict):
            holder[str(path[-1]) + "_"] = holder[path[-1]]
        elif what < 0.35 and isinstance(holder[path[-1]], list):
            holder[path[-1]] = holder[path[-1]] * 2
        elif what < 0.5 and isinstance(holder[path[-1]], int):
            holder[path[-1]] += pick.choice([-1, 1, 2**31, 2**62])
        else:
            holder[path[-1]] = pick.choice(ODD)
    return value


def changed_bytes(data, pick):
    what = pick.randrange(4)
    if what == 0:
        return pick.choice(TEXTS)
    if what == 1:
        return data[:pick.randrange(len(data) + 1)]
    if what == 2:
        return data + bytes(pick.randrange(256) for _ in range(pick.randrange(1, 20)))
    out = bytearray(data)
    for _ in range(pick.choice([1, 3, 30])):
        out[pick.randrange(min(len(out), 4096))] = pick.randrange(256)
    return bytes(out)


def changed_text(data, pick):
    """JSON text, well formed or not."""
    if pick.random() < 0.25:
        return changed_bytes(data, pick)
    text = json.dumps(changed_json(json.loads(data), pick)).encode()
    if pick.random() < 0.1 and text.startswith(b'{"'):  # a name twice
        text = text[:-1] + b"," + text[1:]
    return text


def changed_safetensors(data, pick):
    length = struct.unpack("<Q", data[:8])[0]
    header, rest = data[8:8 + length], data[8 + length:]
    what = pick.randrange(6)
    if what == 0:
        return struct.pack("<Q", pick.choice(
            [0, 1, length - 1, length + 1, len(data), 2**31, 2**32 + 8, 2**63 - 1, 2**64 - 1])) + data[8:]
    if what == 1:
        return changed_bytes(data, pick)
    if what == 2:
        header = changed_bytes(header, pick)
    elif what == 3:
        tensors = json.loads(header)
        name = pick.choice([key for key in tensors if key != "__metadata__"])
        tensor = tensors[name]
        change = pick.randrange(5)
        if change == 0:
            tensor["dtype"] = pick.choice(["F64", "F32", "BF16", "F16", "I8", "U8", "F8_E4M3", "F8_E8M0", "Q4", "bf16"])
        elif change == 1:
            tensor["shape"] = pick.choice([[], [0], [2**62, 2], [2**32, 2**32], [1] * 17, tensor["shape"][::-1],
                                           tensor["shape"] + [1], [1] + tensor["shape"]])
        elif change == 2:
            tensor["data_offsets"] = pick.choice([[0, 0], [8, 0], [0, 2**63], [2**40, 2**41], tensor["data_offsets"][::-1],
                                                  [0, len(rest)], [1, 5]])
        elif change == 3:
            tensors[name + "_"] = tensors.pop(name)
        else:
            del tensors[name]
        header = json.dumps(tensors).encode()
    else:
        header = changed_text(header, pick)
    return struct.pack("<Q", len(header)) + header + rest


def replaced_by_something_else(path, pick):
    path.unlink()
    what = pick.randrange(7)
    if what == 0:
        path.mkdir()
    elif what == 1:
        os.mkfifo(path)
    elif what == 2:
        path.symlink_to(path.name)  # a loop
    elif what == 3:
        path.symlink_to("nowhere")
    elif what == 4:
        path.symlink_to(pick.choice(["/dev/zero", "/dev/null", "/dev/full", "/dev/tty"]))
    elif what == 5:
        path.write_bytes(b"")
        os.truncate(path, pick.choice([1, 2**31 + 1, 2**33, 2**40]))  # holes


def damage(folder, pick):
    """Changes one file and returns its name."""
    names = sorted(file.name for file in folder.iterdir())
    weights = {"config.json": 6, "tokenizer.json": 2}
    name = pick.choices(names, [weights.get(n, 3 if n.endswith("safetensors") else 1) for n in names])[0]
    path = folder / name
    if pick.random() < 0.12:
        replaced_by_something_else(path, pick)
    elif name.endswith(".safetensors"):
        path.write_bytes(changed_safetensors(path.read_bytes(), pick))
    elif name.endswith(".json"):
        path.write_bytes(changed_text(path.read_bytes(), pick))
    else:
        path.write_bytes(changed_bytes(path.read_bytes(), pick))
    return name


def measured(*arguments):
    """Runs to the end: exit code (negative: a signal; None: too slow), stdout, stderr, resident bytes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([BATON, *map(str, arguments)], stdout=out, stderr=err,
                                   stdin=subprocess.DEVNULL)
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        late = not timer.is_alive()
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return None if late else process.returncode, *texts, usage.ru_maxrss * 1024


class Mutation(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def copy(self, name, to):
        folder = self.root / to
        folder.mkdir()
        for file in (ROOT / "testdata" / name).iterdir():
            if not file.name.startswith("golden"):
                shutil.copy(file, folder / file.name)
        if not (folder / "tokenizer.json").exists():
            write_byte_tokenizer(folder)
        return folder

    def check(self, folder, name, verb):
        flags = {"doctor": [], "inspect": [],
                 "complete": ["--prompt", "a", "--max-tokens", "1", "--cpu-threads", "1",
                              "--max-model-len", "64", "--log-level", "error"]}[verb]
        code, out, err, resident = measured(verb, folder, *flags)
        said = f"{verb}: exit {code}, {resident >> 20} MiB\n{err[-3000:]}\n{out[-300:]}"
        self.assertIn(code, (0, 2), said)
        self.assertLess(resident, RESIDENT_BYTES, said)
        if code == 2:
            self.assertEqual(len(err.splitlines()), 1, said)
            # A number that is none comes out of sound files too.
            self.assertTrue(name in err or str(folder) in err or "not finite" in err, said)
        return code

    def test_damaged_folders_load_or_are_refused_in_one_line(self):
        refused = 0
        for seed in range(FIRST_SEED, FIRST_SEED + MUTATIONS):
            pick = random.Random(seed)
            folder = self.copy(pick.choice(FOLDERS), str(seed))
            name = damage(folder, pick)
            with self.subTest(seed=seed, file=name):
                refused += self.check(folder, name, pick.choice(["doctor", "inspect", "complete", "complete"])) == 2
            shutil.rmtree(folder)
        self.assertGreater(refused, MUTATIONS // 3)

    def test_sound_folders_run(self):
        for name in FOLDERS:
            folder = self.copy(name, name)
            for verb in ("doctor", "inspect", "complete"):
                with self.subTest(folder=name, verb=verb):
                    self.assertEqual(self.check(folder, "", verb), 0)


if __name__ == "__main__":
    unittest.main()
