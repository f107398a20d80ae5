"""Reads and writes safetensors files with numpy alone.

Format: https://huggingface.co/docs/safetensors (u64 little-endian header length, JSON header, data area).
numpy has no bfloat16 and no float8, so those tensors travel as raw bits (uint16 / uint8) next to their
safetensors type name; `to_float32` widens them exactly.
"""

import json
import os
import struct
from dataclasses import dataclass

import numpy as np

NUMPY_TYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16,
    "F8_E4M3": np.uint8, "F8_E8M0": np.uint8, "U8": np.uint8, "I8": np.int8,
    "I16": np.int16, "I32": np.int32, "I64": np.int64, "BOOL": np.bool_,
}
PLAIN_TYPES = {np.dtype(np.float64): "F64", np.dtype(np.float32): "F32", np.dtype(np.float16): "F16",
               np.dtype(np.uint8): "U8", np.dtype(np.int8): "I8", np.dtype(np.int16): "I16",
               np.dtype(np.int32): "I32", np.dtype(np.int64): "I64", np.dtype(np.bool_): "BOOL"}


@dataclass
class Tensor:
    """One stored tensor: `dtype` is the safetensors name, `bits` an array of its storage type."""

    dtype: str
    bits: np.ndarray

    @property
    def shape(self):
        return self.bits.shape


def plain(array):
    """A Tensor of a type numpy has itself."""
    return Tensor(PLAIN_TYPES[array.dtype], array)


def e4m3_table():
    """The 256 values of float8 e4m3fn: bias 7, largest 448, no infinities, 0x7f and 0xff are NaN."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    values = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    values = np.where(codes & 128, -values, values)
    values[[0x7F, 0xFF]] = np.nan
    return values.astype(np.float32)


def to_float32(tensor):
    """The values of a tensor as float32 (exact for every type up to 32 bits)."""
    if tensor.dtype == "BF16":
        return (tensor.bits.astype(np.uint32) << 16).view(np.float32)
    if tensor.dtype == "F8_E4M3":
        return e4m3_table()[tensor.bits]
    if tensor.dtype == "F8_E8M0":
        return np.exp2(tensor.bits.astype(np.float32) - 127)
    return tensor.bits.astype(np.float32)


def to_bfloat16(values):
    """Rounds float32 to bfloat16, nearest with ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    rounded = np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
    return Tensor("BF16", rounded.reshape(np.shape(values)))


def read(path):
    """All tensors of one file, name -> Tensor."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = np.frombuffer(raw, NUMPY_TYPES[entry["dtype"]], offset=8 + length + begin,
                             count=int(np.prod(entry["shape"], dtype=np.int64)))
        if data.nbytes != end - begin:
            raise ValueError(f"{path}: tensor {name}: expected {data.nbytes} bytes, got {end - begin}")
        tensors[name] = Tensor(entry["dtype"], data.reshape(entry["shape"]))
    return tensors


def write(path, tensors, metadata=None):
    """Writes tensors (name -> Tensor) in the given order, header padded to 8 bytes."""
    header = {"__metadata__": metadata or {"format": "pt"}}
    offset = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": tensor.dtype, "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + tensor.bits.nbytes]}
        offset += tensor.bits.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor.bits).tobytes())


def read_folder(folder):
    """All tensors of a checkpoint folder (index or single file), name -> Tensor."""
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return read(os.path.join(folder, "model.safetensors"))
    with open(index) as file:
        names = sorted(set(json.load(file)["weight_map"].values()))
    tensors = {}
    for name in names:
        tensors.update(read(os.path.join(folder, name)))
    return tensors


def write_folder(folder, tensors, shards=1):
    """Writes one model.safetensors, or `shards` files of about equal size and their index."""
    if shards == 1:
        write(os.path.join(folder, "model.safetensors"), tensors)
        return
    total = sum(t.bits.nbytes for t in tensors.values())
    files = [{} for _ in range(shards)]
    seen = 0
    for name, tensor in tensors.items():
        files[min(shards - 1, seen * shards // total)][name] = tensor
        seen += tensor.bits.nbytes
    weight_map = {}
    for number, part in enumerate(files):
        file_name = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        write(os.path.join(folder, file_name), part)
        weight_map.update({name: file_name for name in part})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file, indent=1)
        file.write("\n")
