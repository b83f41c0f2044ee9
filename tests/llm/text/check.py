"""Tokenizers of this engine for the files that others read too."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from MNN.llm.text import Tokenizer, load_tokenizer
from MNN.llm.text.builders import byte_level
from MNN.llm.text.pretokenizers import KINDS
from MNN.llm.text.tokenizer import byte_characters
from tests import zoo

HERE = Path(__file__).parent
IDENTITY = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
MODELS: dict[str, dict[str, Any]] = {
    "bpe": {"model_type": "bpe", "vocab_size": 700, "byte_fallback": True, **IDENTITY},
    "bpe_plain": {"model_type": "bpe", "vocab_size": 600, "normalization_rule_name": "identity"},
    "bpe_symbols": {"model_type": "bpe", "vocab_size": 700, "byte_fallback": True, "add_dummy_prefix": False,
                    "bos_id": -1, "user_defined_symbols": ["\n", "\n\n", "\u2581\u2581", "<tag>"],
                    "split_digits": True, **IDENTITY},
    "unigram": {"model_type": "unigram", "vocab_size": 700, "byte_fallback": True,
                "normalization_rule_name": "identity"},
    "unigram_rules": {"model_type": "unigram", "vocab_size": 600, "normalization_rule_tsv": "rules"},
}  # fmt: skip
"""Small SentencePiece models and how they are trained."""


RULES = {
    "\ufb01": "fi",
    "\u00bd": "1/2",
    "\u00e9": "e\u0301",
    "\uff01": "!",
    "A": "a",
    "e\u0301": "e",
    "\u4f60": "hello",
    "\u3000": " ",
}
"""Replacements of the model that has some: a character to others, a letter with its accent, and one to a space."""


@dataclass(frozen=True)
class Case:
    """A tokenizer's file. ``name_in_folder``: its name in a model's folder. ``digits``: whether texts have some."""

    name: str
    file: Path
    name_in_folder: str
    digits: bool = True


def cases() -> list[Case]:
    """All tokenizers; those of the test models among them."""
    small = [Case(name, HERE / "models" / f"{name}.model", "tokenizer.model") for name in MODELS]
    return [
        *small,
        # transformers does not cut numbers as this model's own tokenizer did
        Case("smollm2", zoo.path("smollm2_gguf"), "model.gguf", digits=False),
        Case("minilm", zoo.path("minilm_tokenizer"), "tokenizer.json"),
        Case("qwen", zoo.path("qwen_tiktoken"), "qwen.tiktoken"),
        Case("mistral", zoo.path("mistral_tokenizer_v3"), "tokenizer.model"),
        Case("tekken", zoo.path("mistral_tekken"), "tekken.json"),
    ]


def ours(case: Case) -> Tokenizer:
    """This engine's, from a folder that holds nothing else."""
    if case.file.suffix == ".gguf":
        return load_tokenizer(case.file)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / case.name_in_folder).write_bytes(case.file.read_bytes())
        return load_tokenizer(folder)


def distinct_kinds() -> list[str]:
    """One name of each kind of words."""
    return list({kind: name for name, kind in KINDS.items()}.values())


def cut(kind: str, text: str) -> list[str]:
    """A text in words, by a kind of GGUF's."""
    core = byte_level({}, [], KINDS[kind])
    table = byte_characters()
    words = core.pre_tokenizer.pre_tokenize_str(text)
    return [bytes(table[c] for c in word).decode() for word, _ in words]


def digest(found: list[Any]) -> str:
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:12]
