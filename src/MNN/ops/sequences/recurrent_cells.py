"""One step of RNN, LSTM and GRU cells, and the activation functions that ONNX allows in them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from MNN.errors import ShapeError
from MNN.ir.dtype import DType
from MNN.ir.scalar import Body, BodyBuilder

Activation = Callable[[BodyBuilder, int], int]

_DEFAULTS: dict[str, tuple[float, float]] = {
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, 0.0),
    "thresholdedrelu": (1.0, 0.0),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, 0.0),
}
NAMES = ("sigmoid", "tanh", "relu", "softsign", "softplus", *_DEFAULTS)


@functools.cache
def activation(name: str, alpha: float | None, beta: float | None, clip: float) -> Activation:
    """A named activation, one object for the same arguments; ``clip`` > 0 limits its argument to ``[-clip, clip]``."""
    kind = name.lower()
    if kind not in NAMES:
        raise ShapeError(f"recurrent activation '{name}' is none of {', '.join(NAMES)}")
    default = _DEFAULTS.get(kind, (1.0, 0.0))
    p, q = default[0] if alpha is None else alpha, default[1] if beta is None else beta

    def body(s: BodyBuilder, a: int) -> int:
        def number(v: float) -> int:
            return s.const(v, s.dtype(a))

        if clip > 0:
            a = s("min", s("max", a, number(-clip)), number(clip))
        zero = number(0)
        if kind == "sigmoid":
            return s("recip", s("add", s("exp", s("neg", a)), number(1)))
        if kind == "tanh":
            return s("tanh", a)
        if kind == "relu":
            return s("max", a, zero)
        if kind == "softsign":
            return s("div", a, s("add", s("abs", a), number(1)))
        if kind == "softplus":
            low = s("select", s("gt", a, zero), s("neg", a), a)  # not -|a|, whose derivative at 0 would be 0
            return s("add", s("max", a, zero), s("log1p", s("exp", low)))
        if kind == "affine":
            return s("add", s("mul", a, number(p)), number(q))
        if kind == "leakyrelu":
            return s("select", s("le", a, zero), s("mul", a, number(p)), a)
        if kind == "thresholdedrelu":
            return s("select", s("ge", a, number(p)), a, zero)
        if kind == "scaledtanh":
            return s("mul", s("tanh", s("mul", a, number(q))), number(p))
        if kind == "hardsigmoid":
            return s("min", s("max", s("add", s("mul", a, number(p)), number(q)), zero), number(1))
        return s("select", s("le", a, zero), s("mul", s("expm1", a), number(p)), a)  # elu

    return body


@dataclass(frozen=True)
class Step:
    """What a step of a layer computes besides its products, as scalar programs of ``MNN.ir.prims.Recurrence``."""

    body: Body
    first: Body | None = None


@dataclass(frozen=True)
class Cell:
    """What decides a step: ``f, g, h`` are activations as ONNX names them, ``parameters`` how many tensors ``[D, H]``
    there are besides the gates (an LSTM's peepholes for input, output and forget gate; a GRU's inner bias).

    ``coupled``: an LSTM's forget gate is one minus its input gate. ``after``: a GRU's reset gate is applied to the
    product with R plus the bias (``linear_before_reset``), not to the state before it.
    """

    kind: str
    f: Activation
    g: Activation
    h: Activation
    parameters: int = 0
    coupled: bool = False
    after: bool = False

    def step(self, dtype: DType) -> Step:
        """The layer's step on numbers of this type."""
        if self.kind == "RNN":
            return Step(self._body(dtype, 1, 1, 1, lambda s, x, p, old, more: [self.f(s, s("add", x[0], p[0]))]))
        if self.kind == "LSTM":
            return Step(self._body(dtype, 4, 4, 2, self._lstm))
        body = self._body(dtype, 3, 3, 1, self._gru)
        return Step(body) if self.after else Step(body, self._body(dtype, 3, 2, 1, self._reset))

    def _body(self, dtype: DType, gates: int, products: int, states: int, make: Callable[..., list[int]]) -> Body:
        """A body from ``make(builder, given, products, states, parameters)``."""
        s = BodyBuilder()
        x, p, old, more = ([s.arg(dtype) for _ in range(n)] for n in (gates, products, states, self.parameters))
        return s.build(*make(s, x, p, old, more))

    def _lstm(self, s: BodyBuilder, x: list[int], p: list[int], old: list[int], peep: list[int]) -> list[int]:
        """Gates in the order input, output, forget, cell (Gers & Schmidhuber 2000 for the peepholes)."""
        to_i, to_o, to_f, to_c = (s("add", a, b) for a, b in zip(x, p, strict=True))
        cell = old[1]
        if peep:
            to_i, to_f = s("add", to_i, s("mul", peep[0], cell)), s("add", to_f, s("mul", peep[2], cell))
        enter = self.f(s, to_i)
        keep = s("sub", s.const(1, s.dtype(cell)), enter) if self.coupled else self.f(s, to_f)
        new = s("add", s("mul", keep, cell), s("mul", enter, self.g(s, to_c)))
        if peep:
            to_o = s("add", to_o, s("mul", peep[1], new))
        return [s("mul", self.f(s, to_o), self.h(s, new)), new]

    def _gru(self, s: BodyBuilder, x: list[int], p: list[int], old: list[int], bias: list[int]) -> list[int]:
        """Gates in the order update, reset, hidden (Cho et al. 2014)."""
        z, inner = self.f(s, s("add", x[0], p[0])), p[2]
        if self.after:
            inner = s("add", inner, bias[0]) if bias else inner
            inner = s("mul", self.f(s, s("add", x[1], p[1])), inner)
        candidate = self.g(s, s("add", x[2], inner))
        rest = s("sub", s.const(1, s.dtype(z)), z)
        return [s("add", s("mul", rest, candidate), s("mul", z, old[0]))]

    def _reset(self, s: BodyBuilder, x: list[int], p: list[int], old: list[int], more: list[int]) -> list[int]:
        return [s("mul", self.f(s, s("add", x[1], p[1])), old[0])]
