"""Byte-pair encodings by rank: tiktoken's files, and Mistral's ``tekken.json``."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from MNN.errors import FormatError
from MNN.llm.files.mapped import map_file, read_json
from MNN.llm.text import builders
from MNN.llm.text.pretokenizers import KINDS, Kind
from MNN.llm.text.tokenizer import byte_characters

QWEN = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    *(f"<|extra_{i}|>" for i in range(205)),
]
LLAMA3 = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|reserved_special_token_0|>",
    "<|reserved_special_token_1|>",
    "<|finetune_right_pad_id|>",
    "<|step_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|python_tag|>",
    *(f"<|reserved_special_token_{i}|>" for i in range(2, 247)),
]
"""The special tokens that follow the ranks of these families, which their files do not name."""

KIMI = "tiktoken.model"
"""The name of this file in folders of Kimi and Moonlight, whose special tokens the folder's configuration names."""


@dataclass(frozen=True)
class Ranks:
    """Tokens as bytes in the order of their ranks, the special ones before and after them, and how texts are cut."""

    tokens: tuple[bytes, ...]
    kind: Kind
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def core(self) -> Any:
        """A ``tokenizers.Tokenizer``."""
        characters = {byte: character for character, byte in byte_characters().items()}
        texts = ["".join(characters[b] for b in token) for token in self.tokens]
        ranks = {text: i for i, text in enumerate(texts)}
        if len(ranks) != len(texts):
            raise FormatError("the tokenizer has two tokens of the same bytes")
        merges = builders.split_merges(ranks)
        first = len(self.before)
        ids = {text: i for i, text in enumerate(self.before)} | {text: i + first for text, i in ranks.items()}
        core = builders.byte_level(ids, merges, replace(self.kind, whole_words=True))  # which tiktoken looks up first
        builders.add_tokens(core, [(text, True) for text in (*self.before, *self.after)])
        return core


def looks_like_ranks(path: Path) -> bool:
    """Whether a file is one of tiktoken's: lines of base64 and a number."""
    head = map_file(path)[:64].tobytes().split(b"\n", 1)[0].split()
    return len(head) == 2 and head[1].isdigit()


def read_ranks(path: Path) -> Ranks:
    """Reads a file of tiktoken's. FormatError for what is none."""
    tokens: list[bytes] = []
    for i, line in enumerate(map_file(path).tobytes().splitlines()):
        parts = line.split()
        if not parts:
            continue
        if len(parts) != 2 or parts[1] != str(len(tokens)).encode():
            raise FormatError(f"{path}, line {i + 1}: a token in base64 and the rank {len(tokens)} are expected")
        tokens.append(_decoded(parts[0], f"{path}, line {i + 1}"))
    if path.name.startswith("qwen"):
        return Ranks(tuple(tokens), KINDS["qwen2"], after=tuple(QWEN))
    if len(tokens) == 128000:  # Llama 3, whose file is called tokenizer.model
        return Ranks(tuple(tokens), KINDS["llama3"], after=tuple(LLAMA3))
    if path.name == KIMI:
        return Ranks(tuple(tokens), KINDS["kimi-k2"])
    return Ranks(tuple(tokens), KINDS["glm4"])


def read_tekken(path: Path) -> Ranks:
    """Reads Mistral's ``tekken.json``. FormatError for what is none."""
    data = read_json(path)
    config, vocabulary = data.get("config"), data.get("vocab")
    if not isinstance(config, dict) or not isinstance(vocabulary, list):
        raise FormatError(f"{path} has no config and no vocab")
    size, specials, pattern = (
        config.get(key) for key in ("default_vocab_size", "default_num_special_tokens", "pattern")
    )
    if not isinstance(size, int) or not isinstance(specials, int) or not isinstance(pattern, str):
        raise FormatError(f"{path}: its config lacks default_vocab_size, default_num_special_tokens or pattern")
    if not 0 <= specials <= size <= specials + len(vocabulary):
        raise FormatError(
            f"{path}: {size} tokens with {specials} special ones do not fit its {len(vocabulary)} entries"
        )
    tokens = []
    for i, entry in enumerate(vocabulary[: size - specials]):
        if not isinstance(entry, dict) or entry.get("rank") != i or not isinstance(entry.get("token_bytes"), str):
            raise FormatError(f"{path}: entry {i} of its vocab is no token of rank {i}")
        tokens.append(_decoded(entry["token_bytes"].encode(), f"{path}, entry {i}"))
    named = {e["rank"]: e["token_str"] for e in data.get("special_tokens") or () if _is_special(e)}
    older = dict(enumerate(["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]",
                            "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]",
                            "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
                            "[TOOL_CONTENT]"]))  # fmt: skip
    names = named or older
    before = tuple(names.get(i, f"<SPECIAL_{i}>") for i in range(specials))
    return Ranks(tuple(tokens), Kind((pattern,)), before)


def _is_special(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("rank"), int) and isinstance(entry.get("token_str"), str)


def _decoded(text: bytes, where: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise FormatError(f"{where}: {text[:40]!r} is not base64") from error
    if not found:
        raise FormatError(f"{where}: a token of no bytes")
    return found
