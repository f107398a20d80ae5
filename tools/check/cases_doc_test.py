"""Every test that docs/cases.md names exists."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CasesDoc(unittest.TestCase):
    def test_names_tests_that_exist(self):
        files = {path.stem: path.read_text() for pattern in ("src/**/*_test.cpp", "tests/*_e2e.py")
                 for path in ROOT.glob(pattern)}
        named = re.findall(r"`(\w+(?:_test|_e2e)): (\w+)`", (ROOT / "docs/cases.md").read_text())
        self.assertGreater(len(named), 100)
        for file, test in named:
            with self.subTest(file=file, test=test):
                self.assertIn(file, files)
                pattern = (rf"TEST(_P|_F)?\(\w+,\s*{test}\)" if file.endswith("_test")
                           else rf"(def|class) {test}\(")
                self.assertRegex(files[file], pattern)

    def test_has_one_row_for_each_case(self):
        text = (ROOT / "docs/cases.md").read_text()
        rows = re.findall(r"^\| ((?:[A-Z]{2}-\d\d(?:, )?)+) \|", text, re.M)
        ids = [name for row in rows for name in row.split(", ")]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertGreater(len(ids), 100)


if __name__ == "__main__":
    unittest.main()
