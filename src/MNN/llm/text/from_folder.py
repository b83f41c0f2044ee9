"""The tokenizer in a Hugging Face folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from MNN.errors import FormatError, MNNError
from MNN.llm.files.mapped import JSON_LIMIT, read_json
from MNN.llm.text import builders
from MNN.llm.text.sentencepiece import read_pieces
from MNN.llm.text.special import SpecialTokens, stop_ids
from MNN.llm.text.tiktoken import KIMI, looks_like_ranks, read_ranks, read_tekken
from MNN.llm.text.tokenizer import Tokenizer, core_from_json

ADDED = 100_000
"""Tokens that a folder may add to its tokenizer."""
_NAMES = ("bos", "eos", "unk", "pad", "sep", "cls", "mask")


_USUAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def tokenizer_in(folder: Path) -> Tokenizer:
    """The tokenizer of a folder. MNNError where there is none."""
    config = _optional(folder / "tokenizer_config.json")
    core = _core(folder, config)
    texts = _texts(_optional(folder / "special_tokens_map.json")) | _texts(config)
    if not texts:  # a tokenizer alone
        texts = {name: text for name, text in _USUAL.items() if core.token_to_id(text) is not None}
    added = {token.content: token.special for token in core.get_added_tokens_decoder().values()}
    ids = {name: core.token_to_id(texts[f"{name}_token"]) if f"{name}_token" in texts else None for name in _NAMES}
    named = [ids["eos"]]
    for file in ("generation_config.json", "config.json"):
        value = _optional(folder / file).get("eos_token_id")
        named += [i for i in (value if isinstance(value, list) else [value]) if isinstance(i, int)]
    stops = stop_ids(named, lambda text: core.token_to_id(text) if added.get(text) else None)
    special = SpecialTokens(ids["bos"], ids["eos"], ids["pad"], ids["unk"], stops, texts)
    return Tokenizer(core, special, _templates(folder, config))


def _core(folder: Path, config: dict[str, Any]) -> Any:
    """The tokenizer itself, of whichever file there is."""
    file = folder / "tokenizer.json"
    if file.is_file():
        if file.stat().st_size > JSON_LIMIT:
            raise FormatError(f"{file} has more than {JSON_LIMIT >> 20} MiB; a tokenizer has less")
        try:
            return core_from_json(file.read_text(encoding="utf-8"), str(file))
        except UnicodeDecodeError as error:
            raise FormatError(f"{file} is not text in UTF-8, at byte {error.start}") from error
    if (folder / "tekken.json").is_file():
        ranks = read_tekken(folder / "tekken.json")
        core = ranks.core()
        builders.surround(core, [("<s>", ranks.before.index("<s>"))] if "<s>" in ranks.before else [], [])
        return core
    files = [*sorted(folder.glob("*.tiktoken")), folder / KIMI, folder / "tokenizer.model"]
    for file in files:
        if file.is_file():
            return _of_ranks(file, config) if looks_like_ranks(file) else _of_pieces(file, config)
    raise MNNError(
        f"{folder} holds no tokenizer.json, tokenizer.model, tekken.json or .tiktoken file; copy the model's into it"
    )


def _of_ranks(file: Path, config: dict[str, Any]) -> Any:
    core = read_ranks(file).core()
    _add(core, _decoder_entries(config, str(file)), str(file))
    begin = _texts(config).get("bos_token", "<|begin_of_text|>")
    if core.token_to_id(begin) is not None and config.get("add_bos_token", begin == "<|begin_of_text|>"):
        builders.surround(core, [(begin, core.token_to_id(begin))], [])
    return core


def _of_pieces(file: Path, config: dict[str, Any]) -> Any:
    model = read_pieces(file)
    entries = _decoder_entries(config, str(file))
    prefix = config.get("add_prefix_space")
    renamed = {i: entry.text for i, entry in entries.items() if i < len(model.pieces)}
    core = model.core(renamed, prefix if isinstance(prefix, bool) else None)
    builders.add_tokens(core, [(renamed.get(i, p.text), True) for i, p in enumerate(model.pieces) if p.kind in (2, 3)])
    _add(core, entries, str(file))
    texts = [renamed.get(i, piece.text) for i, piece in enumerate(model.pieces)]
    begin = [(texts[model.begin], model.begin)] if 0 <= model.begin < len(texts) else []
    end = [(texts[model.end], model.end)] if 0 <= model.end < len(texts) else []
    builders.surround(
        core, begin if config.get("add_bos_token", True) else [], end if config.get("add_eos_token") else []
    )
    return core


def _decoder_entries(config: dict[str, Any], where: str) -> dict[int, builders.Added]:
    """``added_tokens_decoder``: tokens by their ids."""
    found: dict[int, builders.Added] = {}
    entries = config.get("added_tokens_decoder") or {}
    if not isinstance(entries, dict):
        raise FormatError(f"the added_tokens_decoder beside {where} is no object")
    for key, entry in entries.items():
        if not str(key).isdigit() or not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
            raise FormatError(f"the added_tokens_decoder beside {where} has the entry {key!r}, which is no token")
        flags = (bool(entry.get(name)) for name in ("special", "lstrip", "rstrip", "single_word"))
        found[int(key)] = builders.Added(entry["content"], *flags)
    return found


def _add(core: Any, entries: dict[int, builders.Added], where: str) -> None:
    """Enters added tokens at their ids; ids that no file names become tokens that no text has."""
    size = core.get_vocab_size(with_added_tokens=True)
    last = max(entries, default=-1)
    if last >= size + ADDED:
        raise FormatError(f"the token {last} beside {where} is far beyond its {size} tokens")
    tokens = [entries.get(i, builders.Added(f"<|unused_{i}|>", True)) for i in range(size, last + 1)]
    builders.add_tokens(core, [*(entry for i, entry in sorted(entries.items()) if i < size), *tokens])
    for i, entry in entries.items():
        if core.token_to_id(entry.text) != i:
            raise FormatError(
                f"the token {entry.text!r} beside {where} is {i} there, but {core.token_to_id(entry.text)} in the file"
            )


def _optional(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}


def _texts(config: dict[str, Any]) -> dict[str, str]:
    """The texts of special tokens, which are given as texts or as objects with a content."""
    found = {}
    for name in _NAMES:
        value = config.get(f"{name}_token")
        content = value.get("content") if isinstance(value, dict) else value
        if isinstance(content, str):
            found[f"{name}_token"] = content
    return found


def _templates(folder: Path, config: dict[str, Any]) -> dict[str, str]:
    """Chat templates by name: of files of their own, which come first, or of the config."""
    given = config.get("chat_template")
    found: dict[str, str] = {}
    if isinstance(given, str):
        found["default"] = given
    elif isinstance(given, list):
        for entry in given:
            if isinstance(entry, dict) and isinstance(entry.get("template"), str):
                found[str(entry.get("name", "default"))] = entry["template"]
    file = folder / "chat_template.jinja"
    if file.is_file():
        found["default"] = file.read_text(encoding="utf-8")
    return found
