"""Checkpoints of models that also see or hear: the half for text, by the names that a model of text
alone has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

_Tensor = TypeVar("_Tensor")
_PREFIXES = (("model.language_model.", "model."), ("language_model.model.", "model."), ("language_model.", ""))
"""What names of that half begin with, newer checkpoints and older ones, and what is there in models of text alone."""


def text_name(name: str) -> str:
    """The name that a weight, or a module, of a model of text alone would have."""
    for prefix, usual in _PREFIXES:
        if name.startswith(prefix):
            return usual + name.removeprefix(prefix)
    return name


def text_half(tensors: Mapping[str, _Tensor]) -> dict[str, _Tensor]:
    """All tensors; those of the half for text without what tells them from others. Where that would give two the same
    name, all keep theirs."""
    names = [text_name(name) for name in tensors]
    return dict(zip(names if _differ(names) else tensors, tensors.values(), strict=True))


def _differ(names: Iterable[str]) -> bool:
    told = list(names)
    return len(set(told)) == len(told)


__all__ = ["text_half", "text_name"]
