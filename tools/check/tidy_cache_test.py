"""A file is looked at again when anything that its result depends on has changed, and only then."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy_cache  # noqa: E402

# Stands for clang-tidy: counts its runs and finds every "bad" in the file or its header.
TOOL = """#!/bin/sh
if [ "$1" = --version ]; then cat "{root}/version"; exit 0; fi
for name; do :; done
echo "$name" >> "{root}/runs"
grep -Hn bad "{root}/$name" "{root}/src/header.h" && exit 1
exit 0
"""


class TidyCacheTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.root = pathlib.Path(self.temporary.name).resolve() / "clone"
        self.make(self.root)
        self.tool = self.root / "tool"

    def make(self, root):
        (root / "src").mkdir(parents=True)
        (root / "build").mkdir()
        self.write(root / "src/a.cpp", '#include "header.h"\nint a;\n')
        self.write(root / "src/header.h", "int h();\n")
        self.write(root / ".clang-tidy", "Checks: one\n")
        self.write(root / "version", "14.0\n")
        self.write(root / "tool", TOOL.format(root=root))
        (root / "tool").chmod(0o755)
        self.command(root, "-O2")

    def write(self, path, text):
        path.write_text(text)

    def command(self, root, flags):
        source = root / "src/a.cpp"
        self.write(root / "build/compile_commands.json", json.dumps(
            [{"directory": str(root / "build"), "file": str(source),
              "command": f"c++ {flags} -o a.o -c {source}"}]))

    def check(self, root=None):
        root = root or self.root
        cache = tidy_cache.TidyCache(root, "build", folder=root.parent / "cache", tool=str(root / "tool"))
        return cache.check("src/a.cpp")

    def runs(self, root=None):
        path = (root or self.root) / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def test_a_clean_file_is_looked_at_once(self):
        self.assertEqual([self.check(), self.check()], ["", ""])
        self.assertEqual(self.runs(), 1)

    def test_every_change_it_depends_on_is_seen(self):
        changes = [
            lambda: self.write(self.root / "src/a.cpp", '#include "header.h"\nint a;  // NOLINT\n'),
            lambda: self.write(self.root / "src/header.h", "int h(int);\n"),
            lambda: self.write(self.root / ".clang-tidy", "Checks: two\n"),
            lambda: self.write(self.root / "version", "15.0\n"),
            lambda: self.command(self.root, "-O2 -DX"),
        ]
        self.check()
        for number, change in enumerate(changes, start=2):
            change()
            self.assertEqual([self.check(), self.check()], ["", ""])
            self.assertEqual(self.runs(), number)

    def test_findings_are_not_remembered(self):
        self.check()
        self.write(self.root / "src/header.h", "int bad();\n")
        self.assertIn("header.h:1:int bad", self.check())
        self.assertIn("header.h:1:int bad", self.check())
        self.assertEqual(self.runs(), 3)

    def test_a_header_that_is_gone_is_a_change(self):
        self.check()
        (self.root / "src/header.h").unlink()
        self.check()
        self.assertEqual(self.runs(), 2)

    def test_a_tool_that_fails_in_silence_is_no_clean_file(self):
        self.write(self.tool, '#!/bin/sh\n[ "$1" = --version ] && exit 0\necho crashed >&2; exit 1\n')
        self.assertEqual(self.check().strip(), "crashed")

    def test_clones_share_what_they_know(self):
        other = self.root.parent / "other"
        self.make(other)
        self.check()
        self.check(other)
        self.assertEqual(self.runs(other), 0)


if __name__ == "__main__":
    unittest.main()
