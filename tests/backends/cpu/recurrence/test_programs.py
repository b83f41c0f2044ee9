"""Recurrent layers compiled to one command, against the reference implementation of their primitive."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from MNN.backends.cpu.recurrence.spec import RecurrenceSpec
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.sequences.recurrent import Layer
from MNN.ops.sequences.recurrent_cells import activation
from tests.compiler.checks import check

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_USUAL = tuple(activation(n, None, None, 0.0) for n in ("sigmoid", "tanh", "tanh"))
_OTHERS = (activation("hardsigmoid", 0.3, 0.4, 0.9), activation("softsign", None, None, 0.0), _USUAL[1])


def layer(
    kind: str,
    steps: int,
    batch: int,
    width: int,
    hidden: int,
    *,
    reverse: tuple[bool, ...] = (False,),
    full: bool = False,
    after: bool = False,
    other: bool = False,
    given_weights: bool = False,
    threads: int = 1,
    precision: str = "normal",
    dtype: type = np.float32,
    tol: float = 1e-5,
    quantized: bool = False,
) -> list[object]:
    """Builds, checks and gives the commands of a layer with random numbers."""
    rng = np.random.default_rng(steps * 100 + batch * 10 + hidden)
    d, gates = len(reverse), GATES[kind]

    def some(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(dtype)

    weights = [some(d, gates * hidden, width), some(d, gates * hidden, hidden) * 2]
    biases = [some(d, gates * hidden), some(d, gates * hidden)]
    factors = [np.abs(w).max(-1) / np.float32(127) for w in weights]
    if quantized:
        weights = [np.round(w / f[..., None]).astype(np.int8) for w, f in zip(weights, factors, strict=True)]
    arrays = [some(steps, batch, width) * 3]
    if full:
        arrays += [rng.integers(0, steps + 2, batch).astype(np.int64)]
        arrays += [some(d, batch, hidden) for _ in range(2)] + [some(d, 3 * hidden)]
    if given_weights:
        arrays += weights

    def build(b: Builder, x: Tensor, *more: Tensor) -> list[Tensor]:
        w, r = more[-2:] if given_weights else [b.const(a) for a in weights]
        lengths, h, c, peepholes = more[:4] if full else (None,) * 4
        made = Layer(
            kind, x, w, r, b.const(biases[0]), b.const(biases[1]), lengths, [h, c], peepholes,
            (_OTHERS if other else _USUAL) * d, reverse, False, after,
            (b.const(factors[0]), b.const(factors[1])) if quantized else None,
        )  # fmt: skip
        return made.run(b)

    program = check(build, *arrays, threads=threads, precision=precision, tol=tol)
    return [c for c in program.commands if isinstance(c.kernel, RecurrenceSpec)]


WAYS = [("RNN", False), ("LSTM", False), ("GRU", False), ("GRU", True)]


@pytest.mark.parametrize(("kind", "after"), WAYS)
@pytest.mark.parametrize("hidden", [1, 5, 16, 33, 64, 100])
def test_sizes(kind: str, after: bool, hidden: int) -> None:
    for batch, reverse in itertools.product((1, 3), ((False,), (True,), (False, True))):
        commands = layer(kind, 4, batch, 7, hidden, reverse=reverse, after=after)
        assert len(commands) == 1
        assert commands[0].blocks == len(reverse)


@pytest.mark.parametrize(("kind", "after"), WAYS)
@pytest.mark.parametrize("batch", [1, 2, 5, 9, 17])
def test_everything_at_once(kind: str, after: bool, batch: int) -> None:
    for other, dtype in ((False, np.float32), (True, np.float32), (False, np.float64)):
        layer(kind, 6, batch, 3, 21, reverse=(False, True), full=True, after=after, other=other, dtype=dtype)
    layer(kind, 3, batch, 3, 21, reverse=(True,), full=True, after=after, given_weights=True)


@pytest.mark.parametrize(("kind", "after"), WAYS)
@pytest.mark.parametrize("threads", [2, 3, 4])
def test_parts_that_meet_after_every_step(kind: str, after: bool, threads: int) -> None:
    for batch, steps in ((1, 40), (4, 7)):
        (command,) = layer(kind, steps, batch, 5, 300, full=True, after=after, threads=threads)
        assert command.kernel.shared
    (command,) = layer(kind, 9, 2, 5, 310, reverse=(False, True), after=after, threads=4)
    assert command.blocks == 4


def test_small_layers_are_divided_by_sequences() -> None:
    (command,) = layer("LSTM", 5, 7, 5, 20, threads=2)
    assert not command.kernel.shared
    assert command.blocks == 2
    (command,) = layer("LSTM", 5, 1, 5, 20, threads=2)
    assert command.blocks == 1


@pytest.mark.parametrize(("kind", "after"), WAYS)
@pytest.mark.parametrize("hidden", [5, 33, 64])
def test_low_precision(kind: str, after: bool, hidden: int) -> None:
    for batch, threads in ((1, 1), (3, 2)):
        commands = layer(kind, 5, batch, 8, hidden, full=True, after=after, precision="low", threads=threads, tol=0.03)
        assert commands[0].kernel.weights in (DType.BF16, DType.F32)


@pytest.mark.parametrize(("kind", "after"), [w for w in WAYS if w[0] != "GRU" or w[1]])
@pytest.mark.parametrize("hidden", [1, 5, 33, 64, 300])
def test_quantized(kind: str, after: bool, hidden: int) -> None:
    """Where a state is on the border of two integers, both are right: hence the tolerance."""
    for batch, threads in ((1, 1), (3, 1), (3, 2), (9, 4)):
        more = {"threads": threads, "full": batch > 1, "reverse": (False, True)[: 1 + (batch == 3)]}
        (command,) = layer(kind, 5, batch, 8, hidden, after=after, quantized=True, tol=5e-3, **more)  # type: ignore[arg-type]
        assert command.kernel.quantized
        assert command.kernel.weights in (DType.I8, DType.F32)


def test_no_steps_and_nothing_to_hold() -> None:
    for steps, batch in ((0, 2), (3, 0)):
        rng = np.random.default_rng(0)
        h = rng.standard_normal((1, batch, 4)).astype(np.float32)
        b = Builder()
        x = Tensor(DType.F32, (steps, batch, 3), name="x")
        w, r = (b.const(rng.standard_normal((1, 16, n)).astype(np.float32)) for n in (3, 4))
        made = Layer("LSTM", x, w, r, states=[b.const(h), b.const(h)], activations=_USUAL).run(b)
        assert [t.shape for t in made] == [(steps, 1, batch, 4), (1, batch, 4), (1, batch, 4)]


def test_one_kernel_serves_all_lengths() -> None:
    kernels = {layer("LSTM", steps, 1, 8, 32)[0].kernel for steps in (1, 2, 50)}
    assert len(kernels) == 1
