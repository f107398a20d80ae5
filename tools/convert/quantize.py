#!/usr/bin/env python3
"""Makes an FP8 or NVFP4 variant of a Hugging Face checkpoint folder; needs numpy only.

    python3 tools/convert/quantize.py SRC DST --scheme fp8-block|nvfp4-modelopt|nvfp4-compressed-tensors
                                      [--exclude 'model.layers.*.self_attn*'] [--power-of-two-scales]

Linear weights are quantised; embeddings, lm_head, norms, biases, the router, indexer.weights_proj and the MTP
eh_proj never are, nor anything matching --exclude (shell wildcards on module paths). Files are converted one
at a time and keep their names, so memory is bounded by the largest shard.

Conventions: block FP8 stores `weight_scale_inv` per 128x128 block, a multiplier. NVFP4 stores two codes per byte
(even input in the low nibble) and an e4m3 scale per 16 inputs; modelopt's `weight_scale_2` multiplies while
compressed-tensors' `weight_global_scale` divides.
"""

import argparse
import fnmatch
import glob
import json
import os
import shutil
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import number_formats as nf  # noqa: E402
import safetensors_file as stf  # noqa: E402

SCHEMES = ("fp8-block", "nvfp4-modelopt", "nvfp4-compressed-tensors")
ALWAYS_EXCLUDED = ("lm_head", "*embed_tokens", "*mlp.gate", "*shared_expert_gate", "*indexer.weights_proj",
                   "*eh_proj", "*shared_head.head", "*conv1d", "*visual*")
# Static activation scale for NVFP4: no calibration is run, activations up to this magnitude are assumed.
ASSUMED_ACTIVATION_MAX = 16.0


def module_of(name):
    return name[: -len(".weight")]


def is_excluded(module, patterns):
    return any(fnmatch.fnmatchcase(module, pattern) for pattern in patterns)


def is_quantizable(name, tensor, scheme, patterns):
    """True for the weight of a linear layer that the scheme can store and no pattern keeps."""
    if not name.endswith(".weight") or tensor.bits.ndim != 2 or tensor.dtype not in ("F32", "F16", "BF16"):
        return False
    if scheme != "fp8-block" and tensor.shape[1] % nf.GROUP:
        return False
    return not is_excluded(module_of(name), patterns)


def encode(name, weight, scheme, power_of_two):
    """The stored tensors of one quantised weight."""
    module = module_of(name)
    if scheme == "fp8-block":
        codes, scales = nf.quantize_blocks(weight, power_of_two=power_of_two)
        return {name: stf.Tensor("F8_E4M3", codes), module + ".weight_scale_inv": stf.plain(scales)}
    packed, scale_codes, multiplier = nf.quantize_nvfp4(weight)
    input_multiplier = np.float32(ASSUMED_ACTIVATION_MAX / (nf.E2M1_MAX * nf.E4M3_MAX))
    block_scales = stf.Tensor("F8_E4M3", scale_codes)
    if scheme == "nvfp4-modelopt":
        return {name: stf.plain(packed), module + ".weight_scale": block_scales,
                module + ".weight_scale_2": stf.plain(np.array(multiplier)),
                module + ".input_scale": stf.plain(np.array(input_multiplier))}
    return {module + ".weight_packed": stf.plain(packed), module + ".weight_scale": block_scales,
            module + ".weight_global_scale": stf.plain(np.array([1 / multiplier], np.float32)),
            module + ".input_global_scale": stf.plain(np.array([1 / input_multiplier], np.float32))}


def decode(name, tensors):
    """(float32 weight, names of its other tensors) of a quantised weight; None if `name` is not one."""
    if name.endswith(".weight_packed"):
        module = name[: -len(".weight_packed")]
        divisor = stf.to_float32(tensors[module + ".weight_global_scale"]).item()
        used = [module + s for s in (".weight_scale", ".weight_global_scale", ".input_global_scale")]
        scale_codes = tensors[module + ".weight_scale"].bits
        return nf.dequantize_nvfp4(tensors[name].bits, scale_codes, np.float32(1 / divisor)), used
    module = module_of(name) if name.endswith(".weight") else None
    if module is None:
        return None
    if module + ".weight_scale_2" in tensors:
        multiplier = stf.to_float32(tensors[module + ".weight_scale_2"]).item()
        used = [module + s for s in (".weight_scale", ".weight_scale_2", ".input_scale")]
        return nf.dequantize_nvfp4(tensors[name].bits, tensors[module + ".weight_scale"].bits, multiplier), used
    if module + ".weight_scale_inv" in tensors:
        scales = stf.to_float32(tensors[module + ".weight_scale_inv"])
        values = stf.to_float32(tensors[name])
        return values * nf.expand_blocks(scales, values.shape), [module + ".weight_scale_inv"]
    return None


def quantization_config(scheme, ignored, power_of_two):
    """The quantization_config entry of config.json; `ignored` are module names and wildcards."""
    if scheme == "fp8-block":
        config = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                  "weight_block_size": [128, 128], "modules_to_not_convert": ignored}
        return {**config, "scale_fmt": "ue8m0"} if power_of_two else config
    if scheme == "nvfp4-modelopt":
        weights = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
        return {"config_groups": {"group_0": {"input_activations": weights, "weights": weights,
                                              "targets": ["Linear"]}},
                "ignore": ignored, "quant_algo": "NVFP4", "producer": {"name": "modelopt", "version": "0.40.0"},
                "quant_method": "modelopt"}
    arguments = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16, "symmetric": True,
                 "actorder": None, "block_structure": None}
    return {"config_groups": {"group_0": {
                "format": "nvfp4-pack-quantized", "targets": ["Linear"], "output_activations": None,
                "weights": {**arguments, "dynamic": False, "observer": "memoryless_minmax"},
                "input_activations": {**arguments, "dynamic": "local", "observer": "static_minmax"}}},
            "format": "nvfp4-pack-quantized", "global_compression_ratio": None, "ignore": ignored,
            "kv_cache_scheme": None, "quant_method": "compressed-tensors", "quantization_status": "compressed"}


def ignore_list(kept_modules, patterns, scheme):
    """What the config lists as unquantised: wildcards for modelopt, plain module names for the others."""
    if scheme != "nvfp4-modelopt":
        return sorted(kept_modules)
    return sorted(p for p in patterns if any(fnmatch.fnmatchcase(m, p) for m in kept_modules))


def weight_files(folder):
    """Names of the weight files of a folder: what the index lists, or the single file."""
    index = os.path.join(folder, "model.safetensors.index.json")
    if os.path.exists(index):
        with open(index) as file:
            return sorted(set(json.load(file)["weight_map"].values()))
    if os.path.exists(os.path.join(folder, "model.safetensors")):
        return ["model.safetensors"]
    raise ValueError(f"{folder}: expected model.safetensors or model.safetensors.index.json, found neither")


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")


def rewrite(source, target, transform, edit_config):
    """Copies a checkpoint folder, passing each weight file through `transform` and config.json through `edit_config`."""
    files = weight_files(source)
    with open(os.path.join(source, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    os.makedirs(target, exist_ok=True)
    if os.listdir(target):
        raise ValueError(f"{target}: expected an empty or new folder")
    for path in glob.glob(os.path.join(source, "*")):
        if os.path.isfile(path) and not path.endswith((".safetensors", ".index.json", "golden.json")):
            shutil.copy(path, target)
    weight_map, total = {}, 0
    for name in files:
        tensors = transform(stf.read(os.path.join(source, name)))
        stf.write(os.path.join(target, name), tensors)
        weight_map.update({tensor: name for tensor in tensors})
        total += sum(t.bits.nbytes for t in tensors.values())
    if len(files) > 1:
        write_json(os.path.join(target, "model.safetensors.index.json"),
                   {"metadata": {"total_size": total}, "weight_map": weight_map})
    write_json(os.path.join(target, "config.json"), edit_config(config))


def convert(source, target, scheme, exclude=(), power_of_two=False):
    """Writes a quantised copy of `source`; returns the number of quantised and of kept linear weights."""
    if scheme not in SCHEMES:
        raise ValueError(f"scheme: expected one of {', '.join(SCHEMES)}, got {scheme}")
    weight_files(source)
    with open(os.path.join(source, "config.json"), encoding="utf-8") as file:
        if "quantization_config" in json.load(file):
            raise ValueError(f"{source}: config.json already has a quantization_config")
    patterns = list(ALWAYS_EXCLUDED) + list(exclude)
    kept, count = set(), 0

    def transform(tensors):
        nonlocal count
        out = {}
        for name, tensor in tensors.items():
            if is_quantizable(name, tensor, scheme, patterns):
                out.update(encode(name, stf.to_float32(tensor), scheme, power_of_two))
                count += 1
            else:
                out[name] = tensor
                if name.endswith(".weight") and tensor.bits.ndim == 2 and "embed_tokens" not in name:
                    kept.add(module_of(name))
        return out

    def edit_config(config):
        ignored = ignore_list(kept, patterns, scheme)
        return {**config, "quantization_config": quantization_config(scheme, ignored, power_of_two)}

    rewrite(source, target, transform, edit_config)
    if scheme == "nvfp4-modelopt":
        write_json(os.path.join(target, "hf_quant_config.json"),
                   {"producer": {"name": "modelopt", "version": "0.40.0"},
                    "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None, "group_size": 16,
                                     "exclude_modules": ignore_list(kept, patterns, scheme)}})
    return count, len(kept)


def dequantize(source, target):
    """Writes an unquantised float32 copy of a folder that `convert` made."""

    def transform(tensors):
        out, used = {}, set()
        for name, tensor in tensors.items():
            found = decode(name, tensors)
            if found is None:
                out[name] = tensor
                continue
            out[name.replace(".weight_packed", ".weight")] = stf.plain(found[0])
            used.update(found[1])
        return {name: tensor for name, tensor in out.items() if name not in used}

    def edit_config(config):
        return {k: v for k, v in config.items() if k != "quantization_config"}

    rewrite(source, target, transform, edit_config)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--scheme", required=True, choices=SCHEMES)
    parser.add_argument("--exclude", action="append", default=[], help="module wildcard to keep unquantised")
    parser.add_argument("--power-of-two-scales", action="store_true", help="fp8-block: scales of scale_fmt ue8m0")
    options = parser.parse_args()
    try:
        count, kept = convert(options.source, options.target, options.scheme, options.exclude,
                              options.power_of_two_scales)
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"quantize: {error}")
    print(f"{options.target}: {count} weights as {options.scheme}, {kept} linear weights kept")


if __name__ == "__main__":
    main()
