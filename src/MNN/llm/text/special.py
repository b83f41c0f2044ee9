"""Tokens with a meaning of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<turn|>",
    "<|return|>",
    "<EOT>",
    "_<EOT>",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001
    "<end_of_utterance>",
)
"""Tokens that end a turn wherever they are special tokens: files often name one end, and their models write another."""


@dataclass(frozen=True)
class SpecialTokens:
    """Ids of tokens, or None. ``stops``: all that end an answer. ``texts``: as templates name them (``bos_token``)."""

    bos: int | None = None
    eos: int | None = None
    pad: int | None = None
    unk: int | None = None
    stops: frozenset[int] = frozenset()
    texts: dict[str, str] = field(default_factory=dict)


def stop_ids(named: Iterable[int | None], special: Callable[[str], int | None]) -> frozenset[int]:
    """The ids that files name as ends, and those of :data:`ENDS` that ``special`` knows as special tokens."""
    return frozenset(i for i in (*named, *map(special, ENDS)) if i is not None)
