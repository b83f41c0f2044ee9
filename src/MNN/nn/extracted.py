"""Modules from expressions: a network that was loaded as Vars, to be trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from MNN.errors import MNNError
from MNN.expr import build
from MNN.expr.fused.settings import lazily
from MNN.expr.node import Expr, in_order
from MNN.expr.types import NCHW
from MNN.expr.var import Var
from MNN.nn.module import Module
from MNN.nn.quantizer import Quantizer
from MNN.nn.steps import check_batch

TRAINED = {"BatchNorm": "BatchNormTraining"}
"""Operators that compute otherwise while they are trained, with those that do."""


MASKED = 1e4
"""Numbers from here on stand for infinity: they hide places from attention, and are no weights."""


class Extracted(Module):
    """What computes ``outputs`` from ``inputs``. Constants of floats that are no single numbers are its parameters,
    unless there shall be none: ``constant``. Masks of attention, zeros that recurrences begin with, and buffers and
    constants of an exported PyTorch program stay what they are."""

    def __init__(
        self, inputs: Sequence[Var], outputs: Sequence[Var], trained: bool = False, constant: bool = False
    ) -> None:
        from MNN.ops.core.base import operators  # running what is stored needs none

        super().__init__()
        self._inputs, self._outputs = list(inputs), list(outputs)
        self._order = _between(self._inputs, self._outputs)
        self._leaves: dict[int, Var] = {}
        self._quantizers: dict[int, Quantizer] = {}
        beginnings = set() if constant else _beginnings(self._order)
        for expr in () if constant else self._order:
            kept = operators()[TRAINED[expr.op]].updates if expr.op in TRAINED else {}
            for number, ref in enumerate(expr.inputs):
                if ref is None or id(ref[0]) in self._leaves or not ref[0].is_leaf or ref[0].op == "Input":
                    continue
                kind, shape = ref[0].leaf_type
                if not kind.is_float or not shape:
                    continue
                if ref[0].fixed and number not in kept:
                    continue
                array = ref[0].results()[0]
                if not np.all(np.abs(array) < MASKED) or (id(ref[0]) in beginnings and not array.any()):
                    continue
                own = build.leaf(array.copy(), op="Trainable")
                own.name = ref[0].name or f"parameter{len(self._leaves)}"
                self._leaves[id(ref[0])] = own
                if number in kept:
                    self.register_statistic(own)
                else:
                    self._vars[own.name if own.name not in self._vars else f"{own.name}_{len(self._vars)}"] = own
        if not trained:
            self.freeze()
            self.train(False)
        self._trained = bool(trained)

    def quantize(self, made: Callable[[], Quantizer]) -> int:
        """Gives each convolution over images with weights of its own what ``made`` makes; how many there are."""
        from MNN.ops.core.base import operators
        from MNN.ops.linear.convolution import Convolution

        for expr in self._order:
            weights = expr.inputs[1] if len(expr.inputs) > 1 else None
            kind = operators()[expr.op]
            if (
                isinstance(kind, Convolution)
                and kind.spatial == 2
                and weights is not None
                and id(weights[0]) in self._leaves
            ):
                quantizer = made()
                quantizer.train(self.is_training)
                self._quantizers[id(expr)] = quantizer
                setattr(self, f"quantizer{len(self._quantizers)}", quantizer)
        return len(self._quantizers)

    def train(self, flag: bool = True) -> None:
        """Switches training on or off; one that was loaded not to be trained stays as it is."""
        super().train(bool(flag) and getattr(self, "_trained", True))

    def forward(self, x: Any) -> Any:
        """One Var (or a sequence of as many as there are inputs) to one Var (or a list)."""
        given = list(x) if isinstance(x, (list, tuple)) else [x]
        if len(given) != len(self._inputs):
            raise MNNError(f"the module takes {len(self._inputs)} inputs, found {len(given)}")
        made: dict[tuple[int, int], Var] = {}
        for own, value in zip(self._inputs, given, strict=True):
            made[id(own._expr), own._index] = build.to_var(value)
        for expr in self._order:
            operands = [None if r is None else self._operand(made, r[0], r[1]) for r in expr.inputs]
            op, count = expr.op, expr.outputs
            attrs: dict[str, Any] = dict(expr.attrs)
            if (quantizer := self._quantizers.get(id(expr))) is not None:
                with lazily():
                    plain = build.apply(op, *operands, **attrs)
                made[id(expr), 0] = quantizer.convolution(plain)
                continue
            if self.is_training and op in TRAINED:
                op, count = TRAINED[op], 3
                check_batch(build.to_var(operands[0]))
                attrs = {"epsilon": attrs.get("epsilon", 1e-5), "momentum": 0.99}
            for i, var in enumerate(build.apply_all(op, operands, count, **attrs)):
                made[id(expr), i] = var
        found = [made[id(v._expr), v._index] for v in self._outputs]
        for var, own in zip(found, self._outputs, strict=True):
            var.set_order(own.data_format)
        return found if isinstance(x, (list, tuple)) else found[0]

    def _operand(self, made: dict[tuple[int, int], Var], expr: Expr, index: int) -> Var:
        if id(expr) in self._leaves:
            return self._leaves[id(expr)]
        return made.setdefault((id(expr), index), Var(expr, index, NCHW))


def _beginnings(order: Sequence[Expr]) -> set[int]:
    """Those that only give, as they are or in parts, the states that recurrences begin with."""
    from MNN.ops.core.base import operators

    found, other = set[int](), set[int]()
    for expr in reversed(order):
        kind = operators()[expr.op]
        for number, ref in enumerate(expr.inputs):
            if ref is None:
                continue
            begins = number in kind.initial_states or (
                number == 0
                and (kind.moves or kind.sizes_from == 1)  # reshaped, cut, repeated
                and id(expr) in found
                and id(expr) not in other
            )
            (found if begins else other).add(id(ref[0]))
    return found - other


def load_module(inputs: Sequence[Var], outputs: Sequence[Var], for_training: bool) -> Module:
    """The network that computes ``outputs`` from the placeholders ``inputs`` (as ``MNN.expr.load_as_dict`` gives them),
    as a module with parameters of its own; those of one that is not ``for_training`` stay as they are."""
    taken, given = ([v] if isinstance(v, Var) else v for v in (inputs, outputs))
    if not all(isinstance(vs, (list, tuple)) and vs and all(isinstance(v, Var) for v in vs) for vs in (taken, given)):
        raise MNNError("load_module() takes lists of Vars: inputs, and outputs that are computed from them")
    return Extracted(list(taken), list(given), bool(for_training))


def _between(inputs: Sequence[Var], outputs: Sequence[Var]) -> list[Expr]:
    """The operators that compute outputs from inputs, in order."""
    ends = {id(v._expr) for v in inputs}
    walked = in_order((v._expr for v in outputs), lambda expr: id(expr) in ends or expr.is_leaf)
    order = [expr for expr in walked if id(expr) not in ends and not expr.is_leaf]
    found = {id(r[0]) for e in order for r in e.inputs if r is not None}
    if not ends & (found | {id(v._expr) for v in outputs}):
        raise MNNError("the outputs are not computed from these inputs")
    return order


__all__ = ["Extracted", "load_module"]
