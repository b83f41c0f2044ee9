"""Puts ConvertTensor operators where the official engine needs them.

Convolutions, poolings and their like take and give NC4HW4 there; other operators take NCHW. Elementwise operators
between two convolutions work in either, and stay in NC4HW4 so that no pair of conversions is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from MNN.frontends.mnn.official.record import Layout
from MNN.frontends.mnn.official.registry import official
from MNN.frontends.mnn.sorting import indexes
from MNN.schema.record import Record

PLAIN, PACKED = "NCHW", "NC4HW4"


@dataclass
class Formats:
    """Formats of one graph's tensors while conversions are put in. ``names`` grows by the tensors that they make."""

    names: list[str]
    constants: set[int]
    packed: set[int] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    """New name to old name of tensors that gave their name to their conversion, which is an output."""
    _converted: dict[tuple[int, bool], int] = field(default_factory=dict)
    _ops: list[Record] = field(default_factory=list)

    def insert(self, ops: list[Record], outputs: list[int]) -> tuple[list[Record], list[int]]:
        """``ops`` with conversions, and the indexes of the outputs (which are plain)."""
        for op in ops:
            self._take(op)
        return self._ops, [self._output(i) for i in outputs]

    def _take(self, op: Record) -> None:
        layout, inputs, outputs = (
            official(str(op.type)).layout,
            indexes(op, "inputIndexes"),
            indexes(op, "outputIndexes"),
        )
        if layout is Layout.PACKED_FIRST and inputs:
            wanted = [self._in_format(inputs[0], True), *(self._in_format(i, False) for i in inputs[1:])]
            gives = True
        elif layout is Layout.PACKED:
            wanted, gives = [self._in_format(i, True) for i in inputs], True
        elif layout is Layout.SHAPE_ONLY:
            wanted, gives = inputs, False
        elif layout is Layout.AS_GIVEN and inputs:
            gives = inputs[0] in self.packed
            wanted = [inputs[0], *(self._in_format(i, False) for i in inputs[1:])]
        elif layout in (Layout.TOGETHER, Layout.TOGETHER_FITTED):
            made = [i for i in inputs if i not in self.constants]
            gives = bool(made) and all(i in self.packed for i in made)
            keep = self.constants if layout is Layout.TOGETHER_FITTED else frozenset()
            wanted = [i if i in keep else self._in_format(i, gives) for i in inputs]
        else:
            wanted, gives = [self._in_format(i, False) for i in inputs], False
        if gives:
            self.packed.update(outputs)
        if wanted != inputs:
            op.inputIndexes = wanted
        self._ops.append(op)

    def _in_format(self, index: int, packed: bool) -> int:
        if index < 0 or (index in self.packed) == packed:
            return index
        key = (index, packed)
        if key not in self._converted:
            name = self._fresh(f"{self.names[index]}__{PACKED if packed else PLAIN}")
            self._converted[key] = self._convert(index, packed, name)
        return self._converted[key]

    def _output(self, index: int) -> int:
        if index not in self.packed:
            return index
        name = self.names[index]
        self.names[index] = self._fresh(f"{name}__before_tr")
        self.renamed[self.names[index]] = name
        return self._convert(index, False, name)

    def _convert(self, index: int, packed: bool, name: str) -> int:
        made = len(self.names)
        self.names.append(name)
        source, target = (PLAIN, PACKED) if packed else (PACKED, PLAIN)
        info = Record("TensorConvertInfo", source=source, dest=target)
        self._ops.append(
            Record("Op", type="ConvertTensor", name=name, main=info, inputIndexes=[index], outputIndexes=[made])
        )
        if packed:
            self.packed.add(made)
        return made

    def _fresh(self, stem: str) -> str:
        taken = getattr(self, "_taken", None)
        if taken is None or len(taken) < len(set(self.names)):
            taken = self._taken = set(self.names)
        name, count = stem, 1
        while name in taken:
            count += 1
            name = f"{stem}_{count}"
        taken.add(name)
        return name
