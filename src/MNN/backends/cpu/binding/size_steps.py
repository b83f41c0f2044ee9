"""Formulas of open sizes as steps that native code takes (:mod:`MNN.backends.cpu.native_loop.open_words_ir`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from MNN.backends.cpu.native_loop.open_words_ir import SIGNS
from MNN.ir.symbolic import Expression, Function, parse


class SizeSteps:
    """Steps that compute sizes, each once: the values are those of the ``names``, and behind them one a step."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {name: i for i, name in enumerate(names)}
        self._known: dict[tuple[int, int, int], int] = {}

    @property
    def rows(self) -> list[tuple[int, int, int]]:
        """The steps: records STEP."""
        return list(self._known)

    @property
    def count(self) -> int:
        """Values that there are."""
        return len(self._names) + len(self._known)

    def number_of(self, size: int | str) -> int:
        """The number of the value that is a size, or what a text writes. Raises ``ValueError`` for other names, and for
        quotients by what is not positive."""
        if type(size) is str:
            size = parse(size)
        if isinstance(size, int):
            return self._step("number", int(size), 0)
        if isinstance(size, Function):
            x, y = size.operands
            if size.kind == "//" and not (isinstance(y, int) and y > 0):
                raise ValueError(f"'{size}' divides by '{y}', which is not known to be positive")
            return self._step(size.kind, self.number_of(x), self.number_of(y))
        if isinstance(size, Expression):
            return reduce(lambda x, y: self._step("+", x, y), [self._product(f, n) for f, n in size.terms.items()])
        if size not in self._names:
            raise ValueError(f"the size '{size}' is not among {list(self._names)}")
        return self._names[size]

    def _product(self, factors: Sequence[str], times: int) -> int:
        numbers = [self.number_of(factor) for factor in factors]
        if times != 1 or not numbers:
            numbers.insert(0, self._step("number", times, 0))
        return reduce(lambda x, y: self._step("*", x, y), numbers)

    def _step(self, sign: str, x: int, y: int) -> int:
        return self._known.setdefault((SIGNS.index(sign), x, y), self.count)


__all__ = ["SizeSteps"]
