"""Trains the byte-level BPE tokenizer of baton-mini and writes tokenizer.json and its config.

GLM style: the GLM-4 split pattern, [gMASK]<sop> as the prefix, role and tool tags as added tokens.
Usage: build_tokenizer.py OUT_DIR
"""

import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import corpus

VOCAB_SIZE = 8192
# The GLM-4 (and Llama-3) split: contractions, words with one leading symbol, up to three digits,
# symbol runs, line ends, white space.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONTROL_TOKENS = ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
# Added but not "special": they must survive decoding, as in GLM.
TEXT_TAGS = [
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
]
SAMPLE_BYTES = 24_000_000


def added_tokens():
    return [AddedToken(t, special=True, normalized=False) for t in CONTROL_TOKENS] + [
        AddedToken(t, special=False, normalized=False) for t in TEXT_TAGS
    ]


def sample_texts():
    texts = [text for _, _, held_back, text in corpus.documents() if not held_back]
    random.Random(7).shuffle(texts)
    total = 0
    for text in texts:
        total += len(text)
        if total > SAMPLE_BYTES:
            return
        yield text
    # A little of what Python sources lack: other scripts, so that their bytes merge at all.
    yield "naïve café Grüße señor Škoda 北京 東京 こんにちは Привет мир γειά σου 🙂 € → ≤ “quoted” – dash\n" * 400


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(CONTROL_TOKENS) - len(TEXT_TAGS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sample_texts(), trainer)
    tokenizer.add_tokens(added_tokens())
    ids = {t: tokenizer.token_to_id(t) for t in ("[gMASK]", "<sop>")}
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="[gMASK] <sop> $A", special_tokens=list(ids.items())),
    ])
    assert tokenizer.get_vocab_size() == VOCAB_SIZE, tokenizer.get_vocab_size()
    return tokenizer


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train()
    tokenizer.save(str(out / "tokenizer.json"))
    config = {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(t.content)): {
                "content": t.content, "lstrip": False, "normalized": False, "rstrip": False,
                "single_word": False, "special": t.special,
            } for t in added_tokens()
        },
        "additional_special_tokens": CONTROL_TOKENS,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 131072,
        "padding_side": "left",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
