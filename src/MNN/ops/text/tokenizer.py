"""Texts cut into words, as ONNX Runtime's Tokenizer does for the text models of classical libraries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from MNN.errors import ShapeError
from MNN.ir.graph import Node
from MNN.ops.arranging.selecting import array
from MNN.ops.core.base import EagerOperator, register
from MNN.ops.text.regex import Pattern

START, END = "\x02", "\x03"


@register("Tokenizer")
class Tokenizer(EagerOperator):
    """Texts ``[c]`` or ``[n, c]`` to their tokens, one more dimension, filled up with ``padValue``.

    ``expression`` says what a token is (the longest piece that fits), or ``separators`` what stands between them, one
    after the other; a single empty separator makes every character a token. Shorter tokens than ``least`` are dropped.
    ``mark`` puts a sign in front of the tokens of each text and one behind.
    """

    in_mnn = False
    attributes = {"expression": "", "separators": None, "padValue": "", "least": 1, "mark": False}

    def evaluate(self, node: Node, inputs: Sequence[np.ndarray | None]) -> Sequence[np.ndarray]:
        x, mark = array(node, inputs, 0), self.bool_attr(node, "mark")
        if x.dtype.kind not in "OSU" or x.ndim not in (1, 2):
            raise ShapeError(f"{node.op} '{node.name}': needs texts in one or two dimensions, found {list(x.shape)}")
        given, expression = self.attr(node, "separators"), self.str_attr(node, "expression")
        separators = [str(s) for s in given] if isinstance(given, list) else []
        patterns = [Pattern(s) for s in ([expression] if expression else separators) if s]
        least = self.int_attr(node, "least")
        rows = []
        for text in (str(t) for t in x.reshape(-1)):
            if expression:
                tokens = [text[a:z] for a, z in patterns[0].pieces(text)]
            else:
                tokens = _between(text, patterns) if patterns else list(text)
            kept = [t for t in tokens if len(t) >= least]
            rows.append([START, *kept, END] if mark else kept)
        width = max((len(r) for r in rows), default=0)
        out = np.full((len(rows), width), self.str_attr(node, "padValue"), object)
        for line, row in zip(out, rows, strict=True):
            line[: len(row)] = row
        return [out.reshape(*x.shape, width)]


def _between(text: str, patterns: Sequence[Pattern]) -> list[str]:
    """What stands between the separators; each pattern cuts what the ones before have left."""
    parts = [text]
    for pattern in patterns:
        cut = []
        for part in parts:
            at = 0
            for a, z in pattern.pieces(part):
                cut.append(part[at:a])
                at = z
            cut.append(part[at:])
        parts = cut
    return [p for p in parts if p]
