"""Streams against decoding all at once, for every kind of decoder, and tokenizers that fail in their library."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tokenizers import Tokenizer as Core
from tokenizers import decoders, models

from MNN.errors import MNNError
from MNN.llm.text import SpecialTokens, Tokenizer
from MNN.llm.text.tokenizer import SPACE, core_from_json

WORDS = (
    f"[UNK] hello world ##ing ## @@x , . ? ! ' n't 's do not it é 中 a</w> _a b_ {SPACE} {SPACE}{SPACE} {SPACE}x"
    " <0xzz> <0x1> <0x_1>"
).split()
DECODERS: dict[str, Any] = {
    "none": None,
    "word pieces": decoders.WordPiece(),
    "word pieces as they are": decoders.WordPiece(cleanup=False),
    "other word pieces": decoders.WordPiece(prefix="@@"),
    "marks": decoders.Metaspace(),
    "marks never left out": decoders.Metaspace(prepend_scheme="never"),
    "bytes": decoders.ByteLevel(),
    "fused": decoders.Fuse(),
    "replaced": decoders.Sequence([decoders.Replace("_", " "), decoders.Fuse()]),
    "llama": decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    ),
    "two stripped": decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 2, 0)]),
    "gemma": decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]),
}


def of_words(decoder: Any, **options: Any) -> Tokenizer:
    core = Core(models.WordLevel({word: i for i, word in enumerate(WORDS)}, **options))
    if decoder is not None:
        core.decoder = decoder
    core.add_special_tokens(["<s>"])
    core.add_tokens(["<word>", " two words"])
    return Tokenizer(core_from_json(core.to_str(), "here"), SpecialTokens())


@pytest.mark.parametrize("name", DECODERS)
def test_streams(name: str) -> None:
    """Joined, the pieces are what the tokens are together; so they are when the stream is used again."""
    tokenizer, rng = of_words(DECODERS[name]), random.Random(0)
    for skip in (True, False):
        stream = tokenizer.stream(skip_special_tokens=skip)
        for _ in range(150):
            ids = [rng.randrange(tokenizer.vocab_size + 1) for _ in range(rng.randint(0, 8))]
            found = "".join(map(stream.push, ids)) + stream.finish()
            assert found == tokenizer.decode(ids, skip_special_tokens=skip), [
                tokenizer.core.id_to_token(i) for i in ids
            ]


def test_tokenizers_that_fail() -> None:
    """Where the library knows no answer, or its Rust code panics, there is an error of one sentence."""
    with pytest.raises(MNNError, match="cannot encode the text"):
        of_words(None, unk_token="none such").encode("elsewhere")
    with pytest.raises(MNNError, match="cannot encode the text"):
        of_words(None, unk_token="none such").encode_batch(["elsewhere"])
    broken = of_words(decoders.Sequence([decoders.Replace("hello", ""), decoders.Strip(" ", 0, 1)]))
    with pytest.raises(MNNError, match="cannot decode these tokens"):
        broken.decode([1])
    with pytest.raises(MNNError, match="natural numbers of 32 bits, not 4294967296"):
        broken.decode([1 << 32])
