"""clang-tidy on single files, remembering which were clean.

What clang-tidy says of a file depends on the file, every header it includes, the compile command,
the checks and the tool itself. A file for which all of these are as they were when it was clean is
not looked at again. Only clean results are kept: one small file each, in the user's cache folder,
so that clones of one repository share them. Findings are always computed anew.
"""
import hashlib
import json
import os
import pathlib
import shlex
import subprocess

# The compile commands are gcc's: clang need not know all of its warnings.
EXTRA = ["--extra-arg=-Wno-unknown-warning-option"]


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "baton" / "tidy"


class TidyCache:
    def __init__(self, root, build, folder=None, tool="clang-tidy"):
        """`build`: the folder of compile_commands.json, relative to `root`."""
        self.root = pathlib.Path(root)
        self.build = build
        self.folder = pathlib.Path(folder or cache_folder())
        self.tool = tool
        commands = json.loads((self.root / build / "compile_commands.json").read_text())
        self.commands = {os.path.relpath(c["file"], self.root): c for c in commands}
        version = subprocess.run([tool, "--version"], capture_output=True, check=True).stdout
        checks = (self.root / ".clang-tidy").read_bytes()
        self.common = hashlib.sha256(version + checks + " ".join(EXTRA).encode()).hexdigest()
        self.digests = {}

    def check(self, name):
        """The output of clang-tidy for the source `name`; empty when it is clean."""
        entry = self.folder / self.key(name)
        if entry.exists():
            digest, *headers = entry.read_text().splitlines()
            if digest == self.digest_of([name, *headers]):
                return ""
        done = subprocess.run([self.tool, "-p", self.build, "--quiet", *EXTRA, name], cwd=self.root,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output = done.stdout.decode("utf-8", "replace")
        if done.returncode != 0 or output.strip():
            return output or done.stderr.decode("utf-8", "replace")
        self.remember(entry, name)
        return ""

    def remember(self, entry, name):
        headers = self.headers_of(name)
        if headers is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        part = entry.with_suffix(f".{os.getpid()}")
        part.write_text("\n".join([self.digest_of([name, *headers]), *headers]) + "\n")
        part.replace(entry)

    def key(self, name):
        """Names an entry: the file and all that does not change with a header."""
        command = shlex.join(self.arguments(name)).replace(str(self.root), "")
        return hashlib.sha256(f"{self.common}\n{name}\n{command}".encode()).hexdigest()

    def arguments(self, name):
        command = self.commands[name]
        return command.get("arguments") or shlex.split(command["command"])

    def headers_of(self, name):
        """What `name` includes: paths below the root relative to it. None: the compiler failed."""
        arguments = [a for a in self.arguments(name) if a != "-c"]
        if "-o" in arguments:
            at = arguments.index("-o")
            del arguments[at:at + 2]
        done = subprocess.run([*arguments, "-M"], cwd=self.commands[name]["directory"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if done.returncode != 0:
            return None
        rule = done.stdout.decode().replace("\\\n", " ").split(":", 1)[1]
        paths = [os.path.normpath(os.path.join(self.commands[name]["directory"], p))
                 for p in shlex.split(rule)]
        prefix = str(self.root) + os.sep
        return sorted({p[len(prefix):] if p.startswith(prefix) else p for p in paths} - {name})

    def digest_of(self, paths):
        """Of names and contents; a file that is gone differs from every file."""
        whole = hashlib.sha256()
        for path in paths:
            if path not in self.digests:
                try:
                    content = (self.root / path).read_bytes()
                    self.digests[path] = hashlib.sha256(content).hexdigest()
                except OSError:
                    self.digests[path] = "gone"
            whole.update(f"{path}\n{self.digests[path]}\n".encode())
        return whole.hexdigest()
