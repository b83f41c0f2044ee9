"""Layers that are known and refused, or not known: why, and what to do."""

from __future__ import annotations

_EXPORT = "export a SavedModel in Keras (model.export('folder')), and convert that folder"
_ADVICE = {
    "Lambda": "it holds Python code, which is never run: write it with keras.ops, or " + _EXPORT,
    "TFSMLayer": "convert the SavedModel that it wraps",
    "StringLookup": "look words up outside of the model, and save the model that takes their numbers",
    "TextVectorization": "split texts outside of the model, and save the model that takes the words' numbers",
    "Hashing": "hash outside of the model, and save the model that takes the numbers",
    "HashedCrossing": "hash outside of the model, and save the model that takes the numbers",
}


def advice(kind: str) -> str:
    """What to do about a layer that cannot be converted."""
    return _ADVICE.get(kind, f"it is a class of the program's own, or not supported yet: {_EXPORT}")
