"""Hugging Face folders of small random models, with a tokenizer of bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers

from MNN.llm.text.tokenizer import byte_characters
from tests.llm import cases
from tests.llm.files.writing import safetensors

TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}"


def tokenizer(words: int = 40) -> tokenizers.Tokenizer:
    """One of bytes with few merges."""
    letters = sorted(byte_characters())
    vocab = {"<s>": 0, "</s>": 1} | {letter: i for i, letter in enumerate(letters, 2)}
    pairs = [("t", "h"), ("th", "e"), ("\u0120", "the"), ("i", "n"), ("a", "n"), ("an", "d")][:words]
    for left, right in pairs:
        vocab[left + right] = len(vocab)
    core = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, pairs))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    core.decoder = tokenizers.decoders.ByteLevel()
    core.add_special_tokens(["<s>", "</s>"])
    core.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return core


def write(folder: Path, notes: dict[str, Any]) -> Path:
    """The model that ``notes`` of a recorded one tell of (``tests/llm/recorded.json``)."""
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(safetensors(cases.weights(notes["shapes"], notes["seed"])))
    (folder / "config.json").write_text(json.dumps(notes["config"]))
    tokenizer().save(str(folder / "tokenizer.json"))
    told = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return folder
