#!/usr/bin/env python3
"""Makes testdata/tiny-tokenizer (512 ids, for the served checkpoints) and testdata/tokenizer (goldens per family).

    python3 tools/oracle/make_tokenizers.py [--out testdata]

Expected ids and texts come from the `tokenizers` package. The split patterns are those that the families'
tokenizer.json files publish (also quoted in llama.cpp src/llama-vocab.cpp).
"""

import argparse
import json
import os
import random

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from tokenizer_texts import corpus, probes

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
GLM = CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
QWEN2 = CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL
QWEN35 = CONTRACTIONS + r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + TAIL
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
            r""" ?[\p{P}\p{S}]+[\r\n]*""" + TAIL]

GLM_CONTROL = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>",
               "<|assistant|>", "<|observation|>", "<|image|>"]
GLM_VISIBLE = ["/nothink", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>",
               "</tool_response>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"]
QWEN_CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
QWEN_VISIBLE = ["<tool_call>", "</tool_call>", "<think>", "</think>"]
DEEPSEEK_CONTROL = ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"]
DEEPSEEK_VISIBLE = ["<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "<｜tool▁calls▁begin｜>"]

# Every flag an added token can carry, in a family of its own.
FLAGGED = [AddedToken("<|strip|>", special=True, lstrip=True, rstrip=True),
           AddedToken("whole", special=False, single_word=True, normalized=False),
           AddedToken("Normợ", special=False, normalized=True),
           AddedToken("<|user|>", special=True), AddedToken("<|user|><|user|>", special=False)]


def plain_tokens(control, visible):
    return ([AddedToken(t, special=True, normalized=False) for t in control]
            + [AddedToken(t, special=False, normalized=False) for t in visible])


# name, patterns, NFC, added tokens, prefix added with special tokens, ignore_merges, merges as "a b" strings
FAMILIES = [
    ("glm", [GLM], False, plain_tokens(GLM_CONTROL, GLM_VISIBLE), ["[gMASK]", "<sop>"], False, True),
    ("qwen3", [QWEN2], True, plain_tokens(QWEN_CONTROL, QWEN_VISIBLE), [], False, False),
    ("qwen3.5", [QWEN35], True, plain_tokens(QWEN_CONTROL, QWEN_VISIBLE), [], False, False),
    ("deepseek-v3", DEEPSEEK, False, plain_tokens(DEEPSEEK_CONTROL, DEEPSEEK_VISIBLE),
     ["<｜begin▁of▁sentence｜>"], False, True),
    ("flags", [GLM], True, FLAGGED, [], True, False),
]


def train(patterns, nfc, added, prefix, ignore_merges, vocabulary):
    """A byte-level BPE tokenizer with `vocabulary` ids, added tokens last."""
    tokenizer = Tokenizer(models.BPE())
    if nfc:
        tokenizer.normalizer = normalizers.NFC()
    splits = [pre_tokenizers.Split(Regex(p), behavior="isolated", invert=False) for p in patterns]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary - len(added), show_progress=False, min_frequency=1,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens(added)
    if prefix:
        pairs = [(t, tokenizer.token_to_id(t)) for t in prefix]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=" ".join(prefix) + " $A", pair=" ".join(prefix) + " $A $B:1", special_tokens=pairs)
    else:
        tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    if tokenizer.get_vocab_size() != vocabulary:
        raise ValueError(f"vocabulary: expected {vocabulary}, got {tokenizer.get_vocab_size()}")
    return with_ignore_merges(tokenizer) if ignore_merges else tokenizer


def with_ignore_merges(tokenizer):
    """Sets ignore_merges, and drops the last merges so that whole words exist that no merge order can reach."""
    value = json.loads(tokenizer.to_str())
    value["model"]["ignore_merges"] = True
    value["model"]["merges"] = value["model"]["merges"][:-150]
    return Tokenizer.from_str(json.dumps(value))


def save(tokenizer, path, merges_as_strings):
    value = json.loads(tokenizer.to_str(pretty=False))
    if merges_as_strings:
        value["model"]["merges"] = [" ".join(pair) for pair in value["model"]["merges"]]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=0, separators=(",", ":"))
        file.write("\n")
    return Tokenizer.from_file(path)


def family_goldens(tokenizer, texts, seed):
    """Parallel to `texts`: ids without and with special tokens, and decoded text where it is not the text itself."""
    plain = [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]
    special = [tokenizer.encode(t, add_special_tokens=True).ids for t in texts]
    decoded = [tokenizer.decode(ids, skip_special_tokens=False) for ids in plain]
    skipped = [tokenizer.decode(ids, skip_special_tokens=True) for ids in plain]
    pick, sequences = random.Random(seed), []
    for _ in range(60):
        if pick.random() < 0.5:
            ids = [pick.randrange(tokenizer.get_vocab_size()) for _ in range(pick.randint(1, 12))]
        else:  # a real text cut at both ends: characters lose bytes
            ids = pick.choice([p for p in plain if len(p) > 3])
            ids = ids[pick.randint(0, 2) : len(ids) - pick.randint(0, 2)]
        sequences.append(ids)
    return {
        "ids": plain, "ids_with_special": [s if s != p else None for p, s in zip(plain, special)],
        "decoded": [d if d != t else None for t, d in zip(texts, decoded)],
        "decoded_skip_special": [s if s != d else None for d, s in zip(decoded, skipped)],
        "decode": [{"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False),
                    "text_skip_special": tokenizer.decode(ids, skip_special_tokens=True)} for ids in sequences]}


def dump_compact(path, value):
    """JSON with one line per leaf list entry, so that diffs stay readable."""
    with open(path, "w", encoding="utf-8") as file:
        def line(x):
            return json.dumps(x, ensure_ascii=True, separators=(",", ":"))
        file.write('{"about":' + line(value["about"]) + ',\n"texts":[\n')
        file.write(",\n".join(line(t) for t in value["texts"]) + '],\n"families":{\n')
        parts = []
        for name, family in value["families"].items():
            fields = ",\n".join(f'"{key}":' + ("[\n" + ",\n".join(line(x) for x in field) + "]"
                                               if isinstance(field, list) else line(field))
                                for key, field in family.items())
            parts.append(f'"{name}":{{{fields}}}')
        file.write(",\n".join(parts) + "}}\n")


def make_tiny(folder):
    """The tokenizer of the served checkpoints: 256 bytes, merges, then the GLM control tokens."""
    os.makedirs(folder, exist_ok=True)
    added = plain_tokens(GLM_CONTROL, GLM_VISIBLE)
    tokenizer = train([GLM], False, added, ["[gMASK]", "<sop>"], False, 512)
    save(tokenizer, os.path.join(folder, "tokenizer.json"), False)
    config = {
        "added_tokens_decoder": {str(tokenizer.token_to_id(t.content)): {
            "content": t.content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": t.special} for t in added},
        "additional_special_tokens": GLM_CONTROL, "clean_up_tokenization_spaces": False, "do_lower_case": False,
        "eos_token": "<|endoftext|>", "extra_special_tokens": {}, "model_max_length": 4096,
        "pad_token": "<|endoftext|>", "padding_side": "left", "remove_space": False,
        "tokenizer_class": "PreTrainedTokenizerFast"}
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1, ensure_ascii=False)
        file.write("\n")
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(ROOT, "testdata"))
    options = parser.parse_args()
    texts = probes()
    tiny = make_tiny(os.path.join(options.out, "tiny-tokenizer"))
    folder = os.path.join(options.out, "tokenizer")
    os.makedirs(folder, exist_ok=True)
    families = {"tiny": {"tokenizer": "../tiny-tokenizer/tokenizer.json", **family_goldens(tiny, texts, 1)}}
    for name, patterns, nfc, added, prefix, ignore_merges, strings in FAMILIES:
        tokenizer = train(patterns, nfc, added, prefix, ignore_merges, 1024)
        tokenizer = save(tokenizer, os.path.join(folder, f"{name}.json"), strings)
        families[name] = {"tokenizer": f"{name}.json", **family_goldens(tokenizer, texts, 2)}
    about = (f"made by tools/oracle/make_tokenizers.py with tokenizers {tokenizers.__version__}; fields run parallel "
             "to texts; null in ids_with_special means equal to ids, in decoded equal to the text, in "
             "decoded_skip_special equal to decoded")
    dump_compact(os.path.join(folder, "cases.json"), {"about": about, "texts": texts, "families": families})
    print(f"{len(texts)} texts, {len(families)} families, {os.path.getsize(folder + '/cases.json') // 1024} KiB")


if __name__ == "__main__":
    main()
