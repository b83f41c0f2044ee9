"""The best classes of outputs that are scores, with their names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape

from MNN.cli.display.tables import add_row, number, show, words
from MNN.errors import MNNError
from MNN.formatting import dims, plural

TOP = 5
SHOWN = 8
"""Samples of a batch that are listed."""
IMAGENET = (1000, 1001)
"""Classes of networks trained on ImageNet; with 1001, number 0 is the background."""


def read_labels(path: Path) -> list[str]:
    """Names of classes in order: a line each, or a JSON list, or a JSON object by number (``{"0": "cat"}``, or a pair
    ``["n01", "cat"]`` of which the last is the name)."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or error) if isinstance(error, OSError) else "it is no UTF-8 text"
        raise MNNError(f"cannot read the labels in {path}: {why}") from error
    if text.lstrip()[:1] in ("[", "{"):
        found = _from_json(path, text)
    else:
        found = text.rstrip("\n").split("\n") if text.strip() else []
    if not found:
        raise MNNError(f"{path} holds no labels; a text file with one name a line is expected")
    return [name.strip() for name in found]


def _from_json(path: Path, text: str) -> list[str]:
    try:
        content = json.loads(text)
        if isinstance(content, dict):
            content = [content[str(i)] for i in range(len(content))]
    except (ValueError, KeyError) as error:
        raise MNNError(f"{path}: labels in JSON are a list of names, or an object by number from 0 on") from error
    return [str(c[-1] if isinstance(c, list) and c else c) for c in content]


def scores(array: np.ndarray) -> np.ndarray | None:
    """``[samples, classes]`` of an output that may be scores: ``[N, C]``, ``[C]`` or ``[N, C, 1, 1]``; else None."""
    if array.dtype.kind != "f" or not array.ndim >= 1 or any(d != 1 for d in array.shape[2:]) or not array.size:
        return None
    rows = array.reshape(array.shape[0], -1) if array.ndim > 1 else array[None]
    return rows.astype(np.float64) if rows.shape[1] > 1 else None


def softmax(name: str, rows: np.ndarray) -> np.ndarray:
    """Probabilities of rows of scores. Raises when they are probabilities already, which would make them all alike."""
    if (rows >= 0).all() and np.allclose(rows.sum(axis=1), 1, atol=1e-3):
        raise MNNError(f"--softmax: output '{name}' holds probabilities already (each row sums to 1); leave it out")
    with np.errstate(invalid="ignore"):
        powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def chosen(results: Mapping[str, np.ndarray], labels: Sequence[str] | None, asked: bool) -> dict[str, np.ndarray]:
    """The outputs whose best classes are shown: with labels those of as many classes, else ImageNet-like ones; where
    ``asked`` without labels, all scores. Raises when something was asked for and no output fits."""
    found = {n: s for n, a in results.items() if (s := scores(a)) is not None}
    if labels is not None:
        fitting = {n: s for n, s in found.items() if s.shape[1] - len(labels) in (0, 1)}
    else:
        fitting = {n: s for n, s in found.items() if asked or s.shape[1] in IMAGENET}
    if not fitting and (asked or labels is not None):
        option = "--softmax" if labels is None else f"--labels with {plural(len(labels), 'name')}"
        held = ", ".join(f"'{n}' ({dims(a.shape)})" for n, a in results.items())
        raise MNNError(f"{option}: no output holds a score for each class; the outputs are {held}")
    return fitting


def show_best(screen: Console, name: str, rows: np.ndarray, labels: Sequence[str] | None, probabilities: bool) -> None:
    """The best classes of each sample, the best first."""
    what = "probability" if probabilities else "score"
    columns = [words("label"), number("class"), number(what)]
    if labels is None:
        del columns[0]
    if len(rows) > 1:
        columns.insert(0, number("sample"))
    first = 0 if labels is None else rows.shape[1] - len(labels)  # number 0 may be a background without a name
    for index, row in enumerate(rows[:SHOWN]):
        for place in np.argsort(-row, kind="stable")[:TOP]:
            cells = [str(int(place)), f"{row[place]:.2%}" if probabilities else f"{row[place]:.5g}"]
            if labels is not None:
                cells.insert(0, escape(labels[place - first]) if place >= first else "(background)")
            if len(rows) > 1:
                cells.insert(0, str(index))
            add_row(columns, *cells)
    hidden = f", of the first {SHOWN} of {len(rows)}" if len(rows) > SHOWN else ""
    show(screen, columns, f"best {min(TOP, rows.shape[1])} of '{escape(name)}'{hidden}")
