"""Tests of tools/convert: python3 -m unittest discover -s tools/convert -p '*_test.py'"""

import json
import os
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import number_formats as nf
import quantize
import safetensors_file as stf


class NumberFormats(unittest.TestCase):
    def test_e4m3_table_has_the_published_corner_values(self):
        table = stf.e4m3_table()
        self.assertEqual(table[0x7E], 448)
        self.assertEqual(table[0x01], 2.0**-9)
        self.assertEqual(table[0x38], 1)
        self.assertEqual(table[0xB8], -1)
        self.assertTrue(np.isnan(table[0x7F]) and np.isnan(table[0xFF]))

    def test_every_e4m3_value_rounds_to_its_own_code(self):
        codes = np.array([c for c in range(256) if c & 127 != 127], np.uint8)
        np.testing.assert_array_equal(nf.to_e4m3(stf.e4m3_table()[codes]), codes)

    def test_e4m3_saturates_and_breaks_ties_to_the_even_code(self):
        np.testing.assert_array_equal(nf.to_e4m3(np.array([1e9, -1e9, 464.0])), [0x7E, 0xFE, 0x7E])
        # 1.0625 lies between 1 (0x38) and 1.125 (0x39); 1.1875 between 1.125 (0x39) and 1.25 (0x3a).
        np.testing.assert_array_equal(nf.to_e4m3(np.array([1.0625, 1.1875])), [0x38, 0x3A])
        self.assertEqual(nf.to_e4m3(np.array([2.0**-10]))[0], 0)

    def test_e2m1_thresholds_are_the_published_ones(self):
        values = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
        np.testing.assert_array_equal(nf.to_e2m1(values), [0, 2, 2, 4, 4, 6, 6])
        np.testing.assert_array_equal(nf.to_e2m1(np.nextafter(values, 9)), [1, 2, 3, 4, 5, 6, 7])
        np.testing.assert_array_equal(nf.to_e2m1(np.array([-6.0, -0.1, -0.5, 100.0])), [15, 0, 9, 7])

    def test_the_even_input_sits_in_the_low_nibble(self):
        codes = np.array([[0x1, 0x2, 0xF, 0x0]], np.uint8)
        np.testing.assert_array_equal(nf.pack_nibbles(codes), [[0x21, 0x0F]])
        np.testing.assert_array_equal(nf.unpack_nibbles(nf.pack_nibbles(codes)), codes)

    def test_bfloat16_rounds_to_nearest_even(self):
        values = np.array([1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -3.0e38, np.nan], np.float32)
        self.assertEqual(stf.to_bfloat16(values).bits.tolist()[:3], [0x3F80, 0x3F80, 0x3F82])
        self.assertTrue(np.isnan(stf.to_float32(stf.to_bfloat16(values))[4]))


class Weights(unittest.TestCase):
    def setUp(self):
        self.weight = np.random.default_rng(1).standard_normal((200, 144)).astype(np.float32)
        self.weight[:16, :16] *= 1000

    def test_block_fp8_error_is_bounded_by_the_step_of_each_partial_block(self):
        codes, scales = nf.quantize_blocks(self.weight)
        self.assertEqual(scales.shape, (2, 2))
        spread = nf.expand_blocks(scales, self.weight.shape)
        error = np.abs(stf.e4m3_table()[codes] * spread - self.weight)
        self.assertTrue(np.all(error <= np.maximum(np.abs(self.weight) / 16, spread * 2.0**-10) * 1.0001))

    def test_block_fp8_scales_of_a_partial_block_ignore_the_other_blocks(self):
        _, scales = nf.quantize_blocks(self.weight)
        self.assertAlmostEqual(scales[1, 1] * 448, np.abs(self.weight[128:, 128:]).max(), places=4)

    def test_power_of_two_scales_are_powers_of_two_and_do_not_saturate(self):
        codes, scales = nf.quantize_blocks(self.weight, power_of_two=True)
        np.testing.assert_array_equal(np.log2(scales), np.round(np.log2(scales)))
        self.assertTrue(np.all(np.abs(self.weight) / nf.expand_blocks(scales, self.weight.shape) <= 448))

    def test_nvfp4_error_is_bounded_by_half_the_widest_step(self):
        packed, scales, multiplier = nf.quantize_nvfp4(self.weight)
        self.assertEqual((packed.shape, scales.shape), ((200, 72), (200, 9)))
        back = nf.dequantize_nvfp4(packed, scales, multiplier)
        step = np.repeat(stf.e4m3_table()[scales] * multiplier, 16, 1)
        largest = np.repeat(np.abs(self.weight).reshape(200, 9, 16).max(-1), 16, 1)
        # Half of the step between 4 and 6, plus what rounding the block scale down can cut off the largest value.
        bound = step + np.maximum(largest - 6 * step, 0) + largest / 16
        self.assertTrue(np.all(np.abs(back - self.weight) <= bound * 1.0001))

    def test_nvfp4_reproduces_representable_weights_exactly(self):
        values = np.tile(nf.E2M1_VALUES, (4, 4)) * np.float32(448)
        packed, scales, multiplier = nf.quantize_nvfp4(values)
        np.testing.assert_array_equal(nf.dequantize_nvfp4(packed, scales, multiplier), values)

    def test_all_zero_weights_stay_zero(self):
        zeros = np.zeros((16, 32), np.float32)
        self.assertFalse(nf.dequantize_nvfp4(*nf.quantize_nvfp4(zeros)).any())
        codes, scales = nf.quantize_blocks(zeros)
        self.assertFalse((stf.e4m3_table()[codes] * nf.expand_blocks(scales, zeros.shape)).any())


class Folders(unittest.TestCase):
    NAMES = ("model.layers.0.mlp.experts.0.up_proj", "model.layers.0.self_attn.o_proj")
    KEPT = ("lm_head", "model.embed_tokens", "model.layers.0.mlp.gate",
            "model.layers.0.self_attn.indexer.weights_proj")

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.source = os.path.join(self.scratch.name, "source")
        os.makedirs(self.source)
        random = np.random.default_rng(2)
        tensors = {f"{n}.weight": stf.to_bfloat16(random.standard_normal((40, 48)).astype(np.float32))
                   for n in self.NAMES + self.KEPT}
        tensors["model.norm.weight"] = stf.plain(np.ones(48, np.float32))
        self.tensors = tensors
        stf.write_folder(self.source, tensors, shards=2)
        with open(os.path.join(self.source, "config.json"), "w") as file:
            json.dump({"model_type": "glm_moe_dsa"}, file)

    def converted(self, scheme, **options):
        target = os.path.join(self.scratch.name, scheme)
        quantize.convert(self.source, target, scheme, **options)
        with open(os.path.join(target, "config.json")) as file:
            return target, stf.read_folder(target), json.load(file)["quantization_config"]

    def test_only_linear_weights_that_may_be_quantised_are(self):
        for scheme in quantize.SCHEMES:
            _, tensors, _ = self.converted(scheme)
            for name in self.KEPT:
                self.assertEqual(tensors[name + ".weight"].dtype, "BF16")
            for name in self.NAMES:
                stored = tensors.get(name + ".weight") or tensors[name + ".weight_packed"]
                self.assertIn(stored.dtype, ("F8_E4M3", "U8"))

    def test_dequantised_folders_match_the_source_within_the_format(self):
        for scheme, bound in (("fp8-block", 0.04), ("nvfp4-modelopt", 0.15), ("nvfp4-compressed-tensors", 0.15)):
            target, _, _ = self.converted(scheme)
            back = os.path.join(self.scratch.name, scheme + "-back")
            quantize.dequantize(target, back)
            restored = stf.read_folder(back)
            self.assertEqual(set(restored), set(self.tensors))
            for name in self.NAMES:
                want = stf.to_float32(self.tensors[name + ".weight"])
                error = np.linalg.norm(stf.to_float32(restored[name + ".weight"]) - want) / np.linalg.norm(want)
                self.assertLess(error, bound)
                self.assertGreater(error, 1e-4)

    def test_the_two_nvfp4_conventions_are_reciprocal(self):
        _, modelopt, _ = self.converted("nvfp4-modelopt")
        _, compressed, _ = self.converted("nvfp4-compressed-tensors")
        name = self.NAMES[0]
        product = stf.to_float32(modelopt[name + ".weight_scale_2"]) * stf.to_float32(
            compressed[name + ".weight_global_scale"])
        self.assertAlmostEqual(product.item(), 1, places=6)
        self.assertEqual(modelopt[name + ".weight_scale_2"].shape, ())
        self.assertEqual(compressed[name + ".weight_global_scale"].shape, (1,))

    def test_ignore_lists_name_what_was_kept(self):
        _, _, fp8 = self.converted("fp8-block")
        self.assertIn("model.layers.0.mlp.gate", fp8["modules_to_not_convert"])
        _, _, compressed = self.converted("nvfp4-compressed-tensors", exclude=["*o_proj"])
        self.assertIn("model.layers.0.self_attn.o_proj", compressed["ignore"])
        target, _, modelopt = self.converted("nvfp4-modelopt", exclude=["*self_attn*"])
        self.assertIn("*self_attn*", modelopt["ignore"])
        with open(os.path.join(target, "hf_quant_config.json")) as file:
            self.assertEqual(json.load(file)["quantization"]["exclude_modules"], modelopt["ignore"])

    def test_the_index_of_a_sharded_folder_lists_the_new_tensors(self):
        target, tensors, _ = self.converted("fp8-block")
        with open(os.path.join(target, "model.safetensors.index.json")) as file:
            self.assertEqual(set(json.load(file)["weight_map"]), set(tensors))

    def test_a_folder_without_weights_is_refused(self):
        with self.assertRaisesRegex(ValueError, "found neither"):
            quantize.convert(self.scratch.name, os.path.join(self.scratch.name, "x"), "fp8-block")

    def test_a_quantised_folder_is_refused_before_anything_is_written(self):
        target, _, _ = self.converted("fp8-block")
        again = os.path.join(self.scratch.name, "again")
        with self.assertRaisesRegex(ValueError, "already has a quantization_config"):
            quantize.convert(target, again, "fp8-block")
        self.assertFalse(os.path.exists(again))


if __name__ == "__main__":
    unittest.main()
