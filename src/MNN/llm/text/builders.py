"""Tokenizers of the ``tokenizers`` library from vocabularies, as GGUF, SentencePiece and tiktoken files have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from MNN.llm.text.library import refused, tokenizers
from MNN.llm.text.pretokenizers import Kind
from MNN.llm.text.tokenizer import SPACE


class Added(NamedTuple):
    """A token that is looked for in texts before anything else. ``special``: whether it is a special one. ``left`` and
    ``right``: whether spaces on that side belong to it. ``word``: whether it is none within a word."""

    text: str
    special: bool
    left: bool = False
    right: bool = False
    word: bool = False


def byte_level(vocabulary: dict[str, int], merges: Sequence[tuple[str, str]], kind: Kind) -> Any:
    """Byte-pair encoding of bytes (GPT-2 and its heirs)."""
    tk = tokenizers()
    core = tk.Tokenizer(bpe(vocabulary, merges, ignore_merges=kind.whole_words))
    if kind.composed:
        core.normalizer = tk.normalizers.NFC()
    steps = [tk.pre_tokenizers.Split(tk.Regex(pattern), behavior="isolated") for pattern in kind.steps]
    bytes_only = tk.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.pre_tokenizer = tk.pre_tokenizers.Sequence([*steps, bytes_only])
    core.decoder = tk.decoders.ByteLevel()
    return core


def bpe(vocabulary: dict[str, int], merges: Sequence[tuple[str, str]], **options: Any) -> Any:
    """The model alone. FormatError where merges and tokens do not fit."""
    with refused("the tokenizer's merges and tokens do not fit each other"):
        return tokenizers().models.BPE(vocab=vocabulary, merges=list(merges), **options)


def split_merges(ranks: Mapping[str, int]) -> list[tuple[str, str]]:
    """Merges for tokens that are joined by their own ranks (tiktoken): all ways to cut each into two others.

    Those of one token are in the order of the ranks of their parts.
    """
    found = []
    for token, rank in ranks.items():
        for cut in range(1, len(token)):
            left = ranks.get(token[:cut])
            if left is not None and (right := ranks.get(token[cut:])) is not None:
                found.append((rank, left, right, cut, token))
    found.sort()
    return [(token[:cut], token[cut:]) for *_, cut, token in found]


def scored_merges(scores: Mapping[str, float], ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """SentencePiece's scores as merges: the best first."""
    best_first = sorted(scores, key=lambda piece: (-scores[piece], ids[piece]))
    return split_merges({piece: rank for rank, piece in enumerate(best_first)})


def piece_bpe(
    vocabulary: dict[str, int],
    merges: Sequence[tuple[str, str]],
    unknown: str | None,
    byte_fallback: bool,
    isolated: Iterable[str] = (),
) -> Any:
    """Byte-pair encoding of characters (SentencePiece's BPE). ``isolated``: pieces that nothing is merged with."""
    tk = tokenizers()
    whole = tuple(isolated)
    options = {"unk_token": unknown, "fuse_unk": True, "byte_fallback": byte_fallback}
    core = tk.Tokenizer(bpe(vocabulary, merges, **options, ignore_merges=bool(whole)))
    _isolate(core, whole)
    return core


def _isolate(core: Any, pieces: Sequence[str]) -> None:
    """Cuts texts at these pieces, the longest first."""
    if pieces:
        tk = tokenizers()
        pattern = "|".join(re.escape(piece) for piece in sorted(pieces, key=len, reverse=True))
        core.pre_tokenizer = tk.pre_tokenizers.Split(tk.Regex(pattern), behavior="isolated")


def unigram(
    pieces: Sequence[tuple[str, float]], unknown: int | None, byte_fallback: bool, isolated: Iterable[str] = ()
) -> Any:
    """SentencePiece's unigram model: the most probable cut. ``isolated``: pieces that are always tokens."""
    tk = tokenizers()
    with refused("the tokenizer's pieces make no unigram model"):
        model = tk.models.Unigram(list(pieces), unk_id=unknown, byte_fallback=byte_fallback)
    core = tk.Tokenizer(model)
    _isolate(core, tuple(isolated))
    return core


def word_piece(vocabulary: dict[str, int], unknown: str, lowercase: bool) -> Any:
    """BERT's: words, then the longest pieces from the left."""
    tk = tokenizers()
    core = tk.Tokenizer(tk.models.WordPiece(vocabulary, unk_token=unknown))
    core.normalizer = tk.normalizers.BertNormalizer(lowercase=lowercase)
    core.pre_tokenizer = tk.pre_tokenizers.BertPreTokenizer()
    core.decoder = tk.decoders.WordPiece()
    return core


def spaces(core: Any, prefix: bool, collapse: bool = False, charsmap: bytes = b"", escape: bool = True) -> None:
    """SentencePiece's normalising of texts, in its order, and the way back.

    ``prefix``: a space before the text. ``collapse``: runs of spaces become one, those at the ends none.
    ``charsmap``: its compiled table of replacements.
    """
    tk = tokenizers()
    steps: list[Any] = []
    if charsmap:
        with refused("the tokenizer's table of replacements cannot be read"):
            steps.append(tk.normalizers.Precompiled(charsmap))
    if collapse:
        steps.append(tk.normalizers.Replace(tk.Regex(r"\A +| +\z"), ""))
        steps.append(tk.normalizers.Replace(tk.Regex(" {2,}"), " "))
    mark = SPACE if escape else " "
    if prefix:
        steps.append(tk.normalizers.Prepend(mark))
    if escape:
        steps.append(tk.normalizers.Replace(" ", SPACE))
    core.normalizer = tk.normalizers.Sequence(steps)
    back = [tk.decoders.Replace(SPACE, " "), tk.decoders.ByteFallback(), tk.decoders.Fuse()]
    if prefix:
        back.append(tk.decoders.Strip(content=" ", left=1))
    core.decoder = tk.decoders.Sequence(back)


def add_tokens(core: Any, tokens: Iterable[Added | tuple[str, bool]]) -> None:
    """Enters tokens that are looked for in texts as they are."""
    make = tokenizers().AddedToken
    found = [
        make(one.text, normalized=False, special=one.special, lstrip=one.left, rstrip=one.right, single_word=one.word)
        for one in (Added(*token) for token in tokens)
        if one.text
    ]
    core.add_tokens(found)


def surround(core: Any, before: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]]) -> None:
    """Tokens that each text begins and ends with."""
    if not before and not after:
        return
    tk = tokenizers()
    template = [*(text for text, _ in before), "$A", *(text for text, _ in after)]
    core.post_processor = tk.processors.TemplateProcessing(single=template, special_tokens=[*before, *after])
