"""Rounding to the small floating-point formats of quantised checkpoints, with numpy alone.

E4M3 is float8_e4m3fn (bias 7, largest 448). E2M1 is the 4-bit format of NVFP4: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
Both round to nearest, ties to the even code, and saturate.
"""

import numpy as np

from safetensors_file import e4m3_table

E4M3_MAX, E2M1_MAX = 448.0, 6.0
E2M1_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E4M3_VALUES = e4m3_table()[:127]
GROUP = 16  # inputs per NVFP4 block scale


def nearest_code(values, table):
    """Codes of the nearest entries of an ascending table of non-negative numbers; ties go to the even code."""
    magnitude = np.minimum(np.abs(values.astype(np.float64)), table[-1])
    middle = (table[1:].astype(np.float64) + table[:-1]) / 2
    code = np.searchsorted(middle, magnitude, side="left")
    tie = (code < len(middle)) & (magnitude == middle[np.minimum(code, len(middle) - 1)]) & (code % 2 == 1)
    return (code + tie).astype(np.uint8)


def to_e4m3(values):
    """float -> e4m3fn codes (uint8)."""
    return nearest_code(values, E4M3_VALUES) | (np.signbit(values).astype(np.uint8) << 7)


def to_e2m1(values):
    """float -> E2M1 codes 0..15 (uint8), bit 3 is the sign; zero has no sign."""
    code = nearest_code(values, E2M1_VALUES)
    return code | np.where(np.signbit(values) & (code != 0), 8, 0).astype(np.uint8)


def from_e2m1(codes):
    return np.where(codes & 8, -1, 1).astype(np.float32) * E2M1_VALUES[codes & 7]


def pack_nibbles(codes):
    """[out, in] codes -> [out, in / 2] bytes; the even input index sits in the low nibble."""
    return (codes[..., 0::2] | (codes[..., 1::2] << 4)).astype(np.uint8)


def unpack_nibbles(packed):
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)


def quantize_blocks(weight, block=128, power_of_two=False):
    """[out, in] float32 -> (e4m3 codes [out, in], scales [ceil(out/block), ceil(in/block)]); value = code * scale."""
    rows, columns = (-(-n // block) for n in weight.shape)
    scales = np.ones((rows, columns), np.float32)
    codes = np.empty(weight.shape, np.uint8)
    for r in range(rows):
        for c in range(columns):
            part = (slice(r * block, (r + 1) * block), slice(c * block, (c + 1) * block))
            largest = np.abs(weight[part]).max()
            if largest > 0:
                scales[r, c] = largest / E4M3_MAX
                if power_of_two:
                    scales[r, c] = np.exp2(np.ceil(np.log2(scales[r, c])))
            codes[part] = to_e4m3(weight[part] / scales[r, c])
    return codes, scales


def expand_blocks(scales, shape, block=128):
    """Block scales spread over a [out, in] weight."""
    return np.repeat(np.repeat(scales, block, 0), block, 1)[: shape[0], : shape[1]]


def quantize_nvfp4(weight):
    """[out, in] float32 -> (packed [out, in/2], e4m3 block scales [out, in/16], multiplier).

    value = e2m1 * block scale * multiplier, multiplier = amax / (6 * 448). A block whose scale underflows to zero
    becomes zero.
    """
    largest = float(np.abs(weight).max())
    multiplier = np.float32(largest / (E2M1_MAX * E4M3_MAX)) if largest > 0 else np.float32(1)
    blocks = weight.reshape(weight.shape[0], -1, GROUP)
    scale_codes = to_e4m3(np.abs(blocks).max(-1) / E2M1_MAX / multiplier)
    step = E4M3_VALUES[scale_codes] * multiplier
    safe = np.where(step > 0, step, np.inf)[..., None]
    codes = to_e2m1(blocks / safe).reshape(weight.shape)
    return pack_nibbles(codes), scale_codes, multiplier


def dequantize_nvfp4(packed, scale_codes, multiplier):
    values = from_e2m1(unpack_nibbles(packed))
    return values * np.repeat(E4M3_VALUES[scale_codes], GROUP, 1) * np.float32(multiplier)
