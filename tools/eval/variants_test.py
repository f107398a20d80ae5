"""The quantised variants of baton-mini can be made and stay close to it. Needs numpy.

Run with: python3 -m unittest discover -s tools/eval -p '*_test.py'
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "baton-mini"

try:
    import numpy  # noqa: F401
except ImportError:
    numpy = None


def tensors(folder):
    """name -> (dtype, shape) of every tensor in the folder's safetensors files."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as f:
            header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        found.update({n: (e["dtype"], e["shape"]) for n, e in header.items() if n != "__metadata__"})
    return found


@unittest.skipIf(numpy is None, "numpy is not installed")
class Variants(unittest.TestCase):
    def convert(self, scheme):
        target = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / scheme
        subprocess.run([sys.executable, str(ROOT / "tools/convert/quantize.py"), str(MODEL), str(target), "--scheme", scheme],
                       check=True, capture_output=True, timeout=300)
        return target

    def test_block_fp8_has_a_scale_for_every_128_by_128_block(self):
        made = tensors(self.convert("fp8-block"))
        for name, (_, shape) in tensors(MODEL).items():
            if name + "_scale_inv" in made:
                self.assertEqual(made[name], ("F8_E4M3", shape))
                self.assertEqual(made[name + "_scale_inv"][1], [-(-d // 128) for d in shape])
        self.assertGreater(sum(n.endswith("_scale_inv") for n in made), 180)

    def test_nvfp4_packs_two_values_per_byte_with_a_scale_per_sixteen(self):
        target = self.convert("nvfp4-modelopt")
        made = tensors(target)
        packed = [n for n in made if n + "_scale_2" in made]
        self.assertGreater(len(packed), 180)
        for name in packed:
            rows, columns = tensors(MODEL)[name][1]
            self.assertEqual(made[name], ("U8", [rows, columns // 2]))
            self.assertEqual(made[name + "_scale"], ("F8_E4M3", [rows, columns // 16]))
        self.assertIn("quantization_config", json.loads((target / "config.json").read_text()))


if __name__ == "__main__":
    unittest.main()
