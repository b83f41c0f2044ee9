"""Tokenizers against those of other libraries (recorded), and what holds for each."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken

from MNN.errors import FormatError, MNNError, UnsupportedError
from MNN.llm.text import Tokenizer, builders, load_tokenizer
from MNN.llm.text.pretokenizers import KINDS
from tests.llm.files.writing import gguf
from tests.llm.text.check import HERE, Case, cases, cut, digest, distinct_kinds, ours
from tests.llm.text.texts import text

RECORDED: dict[str, list[str]] = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))
BYTES = ("smollm2", "qwen", "tekken")
pytestmark = pytest.mark.real

loaded = functools.cache(ours)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_ids(case: Case) -> None:
    tokenizer = loaded(case)
    for seed, expected in enumerate(RECORDED[case.name]):
        assert digest(tokenizer.encode(text(seed, case.digits))) == expected, text(seed, case.digits)


@pytest.mark.parametrize("kind", distinct_kinds())
def test_words(kind: str) -> None:
    """Kinds of words against the ``regex`` module, which has another engine."""
    for seed, expected in enumerate(RECORDED[f"words of {kind}"]):
        assert digest(cut(kind, text(seed))) == expected, text(seed)


@pytest.mark.parametrize("case", [c for c in cases() if c.name in (*BYTES, "bpe", "mistral")], ids=lambda c: c.name)
def test_back_to_text(case: Case) -> None:
    """All text comes back, whole and as a stream; the pieces of a stream are never half a character."""
    tokenizer = loaded(case)
    for seed in range(20):
        given = text(seed, case.digits)
        if case.name == "qwen":
            import unicodedata

            given = unicodedata.normalize("NFC", given)
        ids = tokenizer.encode(given, add_special_tokens=False)
        assert tokenizer.decode(ids) == given
        stream = tokenizer.stream()
        pieces = [stream.push(i) for i in ids]
        assert "".join(pieces) + stream.finish() == given
        assert not any("\ufffd" in piece for piece in pieces)
        assert b"".join(map(tokenizer.bytes_of, ids)).decode().lstrip(" ") == given.lstrip(" ")


@pytest.mark.parametrize("case", [c for c in cases() if c.name in BYTES], ids=lambda c: c.name)
def test_any_tokens_to_text(case: Case) -> None:
    """Ids that make no whole characters: a stream says what decoding all says."""
    tokenizer = loaded(case)
    rng = random.Random(0)
    for _ in range(100):
        ids = [rng.randrange(tokenizer.vocab_size) for _ in range(rng.randint(0, 20))]
        ids = [i for i in ids if i not in tokenizer.special_ids]
        stream = tokenizer.stream()
        assert "".join(map(stream.push, ids)) + stream.finish() == tokenizer.decode(ids)


def smollm2() -> Tokenizer:
    return loaded(next(case for case in cases() if case.name == "smollm2"))


def test_special_tokens() -> None:
    tokenizer = smollm2()
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (1, 2, 2)
    assert tokenizer.stop_ids == {0, 2}
    ids = tokenizer.encode("<|im_start|>user\nHi<|im_end|>")
    assert (ids[0], ids[-1]) == (1, 2)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "user\nHi"
    assert tokenizer.decode(ids) == "<|im_start|>user\nHi<|im_end|>"
    shown = tokenizer.stream(skip_special_tokens=False)
    assert "".join(map(shown.push, ids)) == "<|im_start|>user\nHi<|im_end|>"
    hidden = tokenizer.stream()
    assert "".join(map(hidden.push, ids)) == "user\nHi"
    assert tokenizer.id_of("<|im_end|>") == 2
    assert tokenizer.id_of("no such token") is None
    assert tokenizer.bytes_of(10**6) == b""
    assert tokenizer.encode_batch(["Hi", "there"]) == [tokenizer.encode("Hi"), tokenizer.encode("there")]


def test_what_is_no_text() -> None:
    tokenizer = smollm2()
    assert tokenizer.decode(tokenizer.encode("a\udc80b")) == "a\ufffdb"
    with pytest.raises(MNNError, match="a text is expected, not bytes"):
        tokenizer.encode(b"a")  # type: ignore[arg-type]
    with pytest.raises(MNNError, match="natural numbers"):
        tokenizer.decode([-1])


def folder_with(folder: Path, config: dict[str, object], model: str = "bpe") -> Path:
    (folder / "tokenizer.model").write_bytes((HERE / "models" / f"{model}.model").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_added_tokens_of_a_folder(tmp_path: Path) -> None:
    """Tokens beyond a SentencePiece model, some of its own renamed, with a gap between."""
    plain = load_tokenizer(folder_with(tmp_path, {}))
    size = plain.vocab_size
    decoder = {
        "1": {"content": "<begin>", "special": True},
        str(size): {"content": "<|user|>", "special": True},
        str(size + 3): {"content": "<word>", "special": False},
    }
    config = {"added_tokens_decoder": decoder, "bos_token": {"content": "<begin>"}, "eos_token": "<|user|>"}
    tokenizer = load_tokenizer(folder_with(tmp_path, config | {"add_prefix_space": False}))
    ids = tokenizer.encode("one<|user|>two<word>")
    assert ids[0] == 1
    assert ids[-1] == size + 3
    assert size in ids
    assert tokenizer.vocab_size == size + 4
    assert tokenizer.eos_id == size
    assert tokenizer.decode(ids, skip_special_tokens=True) == "onetwo<word>"
    decoder[str(10**9)] = {"content": "far", "special": True}
    with pytest.raises(FormatError, match="far beyond"):
        load_tokenizer(folder_with(tmp_path, config))


def test_ends_of_a_folder(tmp_path: Path) -> None:
    """Ends that the configs name, one or several."""
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 7]}))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 6}))
    assert load_tokenizer(folder_with(tmp_path, {"eos_token": "</s>"})).stop_ids == {2, 5, 6, 7}


def test_pieces_in_gguf(tmp_path: Path) -> None:
    """The same SentencePiece models inside a GGUF file."""
    from MNN.llm.text.sentencepiece import read_pieces

    for name, kind in (("bpe", "llama"), ("bpe_symbols", "llama"), ("unigram", "t5"), ("unigram_rules", "t5")):
        file = HERE / "models" / f"{name}.model"
        model = read_pieces(file)
        words = {
            "general.architecture": "llama",
            "tokenizer.ggml.model": kind,
            "tokenizer.ggml.tokens": [piece.text for piece in model.pieces],
            "tokenizer.ggml.scores": np.array([piece.score for piece in model.pieces], np.float32),
            "tokenizer.ggml.token_type": np.array([piece.kind for piece in model.pieces], np.int32),
            "tokenizer.ggml.unknown_token_id": model.unknown,
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.add_bos_token": model.begin >= 0,
            "tokenizer.ggml.add_eos_token": False,
            "tokenizer.ggml.add_space_prefix": model.prefix,
            "tokenizer.ggml.remove_extra_whitespaces": model.collapse,
            "tokenizer.ggml.precompiled_charsmap": np.frombuffer(model.charsmap, np.uint8),
        }
        inside = tmp_path / f"{name}.gguf"
        inside.write_bytes(gguf(words, {}))
        tokenizer, other = load_tokenizer(inside), loaded(next(c for c in cases() if c.name == name))
        for seed in range(20):
            assert tokenizer.encode(text(seed)) == other.encode(text(seed))


def test_word_pieces_in_gguf(tmp_path: Path) -> None:
    """BERT's vocabulary as GGUF files have it: words are marked, not their ends."""
    other = loaded(next(case for case in cases() if case.name == "minilm"))
    vocabulary = sorted(other.core.get_vocab().items(), key=lambda item: item[1])
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    unmarked = [t if t in special else t[2:] if t.startswith("##") else "\u2581" + t for t, _ in vocabulary]
    words = {
        "general.architecture": "bert",
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": unmarked,
        "tokenizer.ggml.token_type": np.array([3 if t in special else 1 for t, _ in vocabulary], np.int32),
        "tokenizer.ggml.unknown_token_id": 100,
        "tokenizer.ggml.bos_token_id": 101,
        "tokenizer.ggml.seperator_token_id": 102,
    }
    inside = tmp_path / "bert.gguf"
    inside.write_bytes(gguf(words, {}))
    tokenizer = load_tokenizer(inside)
    for seed in range(40):
        assert tokenizer.encode(text(seed)) == other.encode(text(seed))


def test_broken_tokenizers(tmp_path: Path) -> None:
    with pytest.raises(MNNError, match=r"no tokenizer.json"):
        load_tokenizer(tmp_path)
    good = (HERE / "models" / "bpe.model").read_bytes()
    rng = random.Random(0)
    file = tmp_path / "tokenizer.model"
    outcomes = set()
    for i in range(60):
        data = bytearray(good[: rng.randrange(len(good))] if i % 3 == 0 else good)
        for _ in range(rng.randint(1, 8)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(bytes(data))
        try:
            load_tokenizer(tmp_path).encode("some text")
            outcomes.add("read")
        except MNNError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
    file.unlink()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(MNNError, match="cannot be read as a tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "a.tiktoken").write_text("YQ== 0\nYg== 7\n")
    with pytest.raises(FormatError, match="line 2"):
        load_tokenizer(tmp_path)


def test_broken_tokenizers_in_gguf(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    base = {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b", "ab"]}
    for more, error, message in [
        ({"tokenizer.ggml.pre": "none such"}, UnsupportedError, "none such"),
        ({"tokenizer.ggml.model": "rwkv"}, UnsupportedError, "rwkv"),
        ({"tokenizer.ggml.merges": ["ab"]}, FormatError, "no pair"),
        ({"tokenizer.ggml.merges": ["a c"]}, FormatError, "do not fit"),
        ({"tokenizer.ggml.token_type": np.zeros(2, np.int32)}, FormatError, "2 entries for 3"),
        ({"tokenizer.ggml.tokens": 3}, FormatError, "list is expected"),
    ]:
        file.write_bytes(gguf({**base, **more}, {}))
        with pytest.raises(error, match=message):
            load_tokenizer(file)
    file.write_bytes(gguf({**base, "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.bos_token_id": 99}, {}))
    assert load_tokenizer(file).encode("ab") == [2]


def test_merges_that_make_no_token() -> None:
    """The library's Rust code panics by them, which is no ordinary exception."""
    with pytest.raises(FormatError, match="merges and tokens do not fit"):
        builders.byte_level({"!": 0, '"': 1}, [("!", '"')], next(iter(KINDS.values())))


@pytest.mark.parametrize("name", ["bpe", "unigram"])
def test_flags_of_added_tokens(name: str, tmp_path: Path) -> None:
    """Beside a SentencePiece file: what a ``tokenizer.json`` of the same tokens and flags reads."""
    rng, size = random.Random(3), loaded(next(c for c in cases() if c.name == name)).vocab_size
    flags = ("special", "lstrip", "rstrip", "single_word")
    entries = {
        str(size + i): {"content": f"<|{i}|>" if i % 2 else f"word{i}", **{f: rng.random() < 0.5 for f in flags}}
        for i in range(12)
    }
    (tmp_path / "tokenizer.model").write_bytes((HERE / "models" / f"{name}.model").read_bytes())
    plain = load_tokenizer(tmp_path).core
    plain.add_tokens([AddedToken(e["content"], normalized=False, **{f: e[f] for f in flags}) for e in entries.values()])
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": entries}))
    found, differ = load_tokenizer(tmp_path), 0
    for _ in range(200):
        words = [rng.choice([*(e["content"] for e in entries.values()), "a", " ", "  ", "\n", "sea"]) for _ in range(9)]
        given = "".join(words)
        assert found.encode(given) == plain.encode(given).ids, given
        differ += given != found.decode(found.encode(given)).lstrip(" ")
    assert differ > 20  # spaces that belong to a token are gone
