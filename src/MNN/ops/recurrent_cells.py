"""One step of RNN, LSTM and GRU cells, and the activation functions that ONNX allows in them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from MNN.errors import ShapeError
from MNN.ir.prims import Tensor
from MNN.ir.scalar import BodyBuilder
from MNN.ops.builder import Builder

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
            return s("add", s("max", a, zero), s("log1p", s("exp", s("neg", s("abs", a)))))
        if kind == "affine":
            return s("add", s("mul", a, number(p)), number(q))
        if kind == "leakyrelu":
            return s("select", s("lt", a, zero), s("mul", a, number(p)), a)
        if kind == "thresholdedrelu":
            return s("select", s("ge", a, number(p)), a, zero)
        if kind == "scaledtanh":
            return s("mul", s("tanh", s("mul", a, number(q))), number(p))
        if kind == "hardsigmoid":
            return s("min", s("max", s("add", s("mul", a, number(p)), number(q)), zero), number(1))
        return s("select", s("lt", a, zero), s("mul", s("expm1", a), number(p)), a)  # elu

    return body


def columns(b: Builder, x: Tensor, index: int, size: int) -> Tensor:
    """Gate number ``index`` of ``[..., gates * size]``."""
    return b.slice(x, (*(0,) * (x.rank - 1), index * size), (*x.shape[:-1], size))


@dataclass
class Cell:
    """What a step needs besides the input's share of the gates.

    Everything has the directions in front: gates ``[D, B, gates * H]``, states ``[D, B, H]``. ``r``: ``[D, H, gates *
    H]``, the recurrence weights transposed. ``f, g, h``: activations as ONNX names them.
    """

    hidden: int
    r: Tensor
    f: Activation
    g: Activation
    h: Activation


@dataclass
class RnnCell(Cell):
    """``H' = f(x + H R)``."""

    def step(self, b: Builder, gates: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        back = b.matmul(state[0], self.r)
        return [b.map(lambda s, a, c: self.f(s, s("add", a, c)), gates, back)]


@dataclass
class LstmCell(Cell):
    """Gates in the order input, output, forget, cell. ``peepholes``: three ``[D, 1, H]`` for input, output and forget
    (Gers & Schmidhuber 2000); ``coupled``: the forget gate is one minus the input gate."""

    peepholes: tuple[Tensor, Tensor, Tensor] | None = None
    coupled: bool = False

    def step(self, b: Builder, gates: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        before, cell = state
        back = b.matmul(before, self.r)
        i, o, f, c = ((columns(b, gates, k, self.hidden), columns(b, back, k, self.hidden)) for k in range(4))
        peeps = self.peepholes

        def next_cell(s: BodyBuilder, *v: int) -> int:
            ix, ih, fx, fh, cx, ch, old = v[:7]
            to_i, to_f = s("add", ix, ih), s("add", fx, fh)
            if peeps:
                to_i, to_f = s("add", to_i, s("mul", v[7], old)), s("add", to_f, s("mul", v[8], old))
            enter = self.f(s, to_i)
            keep = s("sub", s.const(1, s.dtype(old)), enter) if self.coupled else self.f(s, to_f)
            return s("add", s("mul", keep, old), s("mul", enter, self.g(s, s("add", cx, ch))))

        def output(s: BodyBuilder, ox: int, oh: int, new: int, *peep: int) -> int:
            to_o = s("add", ox, oh)
            if peep:
                to_o = s("add", to_o, s("mul", peep[0], new))
            return s("mul", self.f(s, to_o), self.h(s, new))

        new = b.map(next_cell, *i, *f, *c, cell, *((peeps[0], peeps[2]) if peeps else ()))
        return [b.map(output, *o, new, *((peeps[1],) if peeps else ())), new]


@dataclass
class GruCell(Cell):
    """Gates in the order update, reset, hidden (Cho et al. 2014). ``after``: the reset gate is applied to the product
    with R plus ``bias`` (``linear_before_reset``), not to the state before it."""

    after: bool = False
    bias: Tensor | None = None

    def step(self, b: Builder, gates: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        (before,) = state
        size = self.hidden
        zx, rx, hx = (columns(b, gates, k, size) for k in range(3))

        def mix(s: BodyBuilder, z: int, candidate: int, old: int) -> int:
            rest = s("sub", s.const(1, s.dtype(z)), z)
            return s("add", s("mul", rest, candidate), s("mul", z, old))

        if self.after:
            back = b.matmul(before, self.r)
            zh, rh, hh = (columns(b, back, k, size) for k in range(3))
            shift = [] if self.bias is None else [self.bias]

            def whole(s: BodyBuilder, *v: int) -> int:
                zx, zh, rx, rh, hx, hh, old = v[:7]
                inner = s("add", hh, v[7]) if len(v) > 7 else hh
                reset = self.f(s, s("add", rx, rh))
                candidate = self.g(s, s("add", hx, s("mul", reset, inner)))
                return mix(s, self.f(s, s("add", zx, zh)), candidate, old)

            return [b.map(whole, zx, zh, rx, rh, hx, hh, before, *shift)]
        r = self.r
        back = b.matmul(before, b.slice(r, (0, 0, 0), (*r.shape[:2], 2 * size)))
        zh, rh = (columns(b, back, k, size) for k in range(2))
        gated = b.map(lambda s, a, c, old: s("mul", self.f(s, s("add", a, c)), old), rx, rh, before)
        hh = b.matmul(gated, columns(b, r, 2, size))

        def final(s: BodyBuilder, zx: int, zh: int, hx: int, hh: int, old: int) -> int:
            return mix(s, self.f(s, s("add", zx, zh)), self.g(s, s("add", hx, hh)), old)

        return [b.map(final, zx, zh, hx, hh, before)]
