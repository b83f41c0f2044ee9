"""Layers that repeat: their commands are copied, and are those that emission would have given."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from MNN.backends.base.constants import ConstantPool
from MNN.backends.base.options import Options
from MNN.backends.base.program import Command, Program, Ref
from MNN.backends.cpu import compile as stages
from MNN.backends.cpu.binding.bind import BoundProgram
from MNN.backends.cpu.codegen.library import shared_library
from MNN.backends.cpu.compile import compile_stage
from MNN.backends.cpu.emission.emission_cache import EmissionCache, _Copy
from MNN.backends.cpu.winograd.spec import WinogradSpec
from MNN.ir.dtype import DType
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder
from MNN.ops.reducing.normalization import affine, standardize
from MNN.ops.reducing.softmax import softmax

LAYERS, WIDTH = 3, 32


def weights(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


TABLES = {
    (layer, name): weights(*shape, seed=10 * layer + i)
    for layer in range(LAYERS)
    for i, (name, shape) in enumerate(
        {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "up": (WIDTH, 48), "down": (48, WIDTH), "bias": (WIDTH,)}.items()
    )
}


def network(b: Builder, x: Tensor) -> Tensor:
    """Attention, a residual sum, a norm and two products with an activation, ``LAYERS`` times."""
    for layer in range(LAYERS):
        b.where = f"layer{layer}"
        q, k, up, down, bias = (b.const(TABLES[layer, name]) for name in ("q", "k", "up", "down", "bias"))
        scores = softmax(b, b.matmul(b.matmul(x, q), b.permute(b.matmul(x, k), (0, 2, 1))), 2)
        x = b.op("add", x, b.matmul(scores, x))
        normal, _, _ = standardize(b, x, [2], 1e-5)
        x = affine(b, normal, bias, bias)
        x = b.op("add", x, b.matmul(b.clamp(b.matmul(x, up), 0, None), down))
    return x


def compiled(rows: int, pool: ConstantPool) -> tuple[Program, np.ndarray]:
    b = Builder(folds=pool.folds)
    x = Tensor(DType.F32, (1, rows, WIDTH), name="x")
    out = network(b, x)
    library = shared_library(cache=True)
    program = compile_stage(b.prims, [x], [out], library.target, Options(1, "high", tuned={}), pool)
    bound = BoundProgram(program, library)
    return program, bound.run([weights(1, rows, WIDTH, seed=99)], 1)[0]


def described(command: Command) -> tuple[object, ...]:
    """Everything about a command but the identity of its memory."""

    def value(v: object) -> object:
        if not isinstance(v, Ref):
            return v
        return (v.buffer.offset, v.offset) if v.buffer.const is None else (v.buffer.const.tobytes(), v.offset)

    stages = [(described(s.command), s.per, s.shift, s.count, s.when) for s in command.stages]
    args = {name: value(v) for name, v in command.args.items()}
    return command.kernel, args, command.blocks, command.grain, command.origin, command.choices, stages


def test_copied_layers_are_those_that_emission_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[_Copy] = []
    all_of = _Copy.all
    monkeypatch.setattr(_Copy, "all", lambda self: copied.append(self) or all_of(self))
    pool, plain = ConstantPool(), ConstantPool()
    kept = [compiled(rows, pool) for rows in (7, 12, 40)]
    assert len(copied) > 2 * LAYERS
    monkeypatch.setattr(EmissionCache, "emit", lambda self, groups, emit: emit())
    for rows, (program, found) in zip((7, 12, 40), kept, strict=True):
        want_program, want = compiled(rows, plain)
        np.testing.assert_array_equal(found, want)
        assert program.arena_bytes == want_program.arena_bytes
        assert list(map(described, program.commands)) == list(map(described, want_program.commands))


@pytest.mark.parametrize("products", [1, 2])
def test_copies_in_another_order_go_with_their_layer(products: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are copied before queries meet them; a second product that reads the same copy makes none of its own."""

    def scores(layers: int) -> Program:
        b, rows = Builder(), 24
        x = Tensor(DType.F32, (1, rows, WIDTH), name="x")
        found: list[Tensor] = []
        for layer in range(layers):
            b.where = f"layer{layer}"
            q, k = (b.matmul(x, b.const(TABLES[layer, name])) for name in "qk")
            queries, keys = (b.reshape(t, (1, rows, 2, WIDTH // 2)) for t in (q, k))
            across = b.permute(keys, (0, 2, 3, 1))
            sides = b.permute(queries, (0, 2, 1, 3)), b.const(weights(1, 2, 5, WIDTH // 2, seed=layer))
            found += [b.matmul(side, across) for side in sides[:products]]
        library = shared_library(cache=True)
        return compile_stage(b.prims, [x], found, library.target, Options(1, "high"), ConstantPool())

    emitted: list[int] = []
    each = stages._emit_or_host
    monkeypatch.setattr(
        stages, "_emit_or_host", lambda e, group: emitted.append(group.root.outputs[0].rank) or each(e, group)
    )
    kept = scores(LAYERS)
    assert emitted.count(4) == products
    monkeypatch.setattr(EmissionCache, "emit", lambda self, groups, emit: emit())
    assert list(map(described, kept.commands)) == list(map(described, scores(LAYERS).commands))


def test_a_layer_with_an_outlier_is_no_copy_of_one_without() -> None:
    """What is fast for even weights drowns the others in rounding; equal shapes do not make it right."""
    tables = [weights(64, 64, 3, 3, seed=i) for i in range(3)]
    tables[1][7, 5, 1, 2] = 1e20
    pool, library = ConstantPool(), shared_library(cache=True)
    for size in (16, 24, 32):
        b = Builder()
        x = out = Tensor(DType.F32, (1, 64, size, size), name="x")
        for layer, table in enumerate(tables):
            b.where = f"layer{layer}"
            out = b.clamp(b.conv(out, b.const(table), (1, 1), (1, 1), 1, (1, 1, 1, 1)), 0, None)
        program = compile_stage(b.prims, [x], [out], library.target, Options(1, "high"), pool)
        fast = {c.origin for c in program.commands if isinstance(c.kernel, WinogradSpec)}
        assert fast == {"layer0", "layer2"}


def test_a_command_for_another_node_differs_in_what_is_given_alone() -> None:
    fields = {f.name: object() for f in dataclasses.fields(Command) if f.init}
    command = Command(**fields)  # type: ignore[arg-type]
    command._refs = ()
    new = command.moved({}, (), "other")
    for name, value in fields.items():
        expected = {"args": {}, "stages": (), "origin": "other", "condition": None}.get(name, value)
        assert getattr(new, name) == expected, name
    assert new._refs is None
    assert command.args is fields["args"]


def test_sizes_seen_before_change_no_result() -> None:
    """Plans that follow others at other sizes against plans that follow none: odd sizes, size 1, and back again."""
    pool = ConstantPool()
    for rows in (7, 1, 33, 200, 12, 3, 64, 1, 7):
        _, found = compiled(rows, pool)
        _, want = compiled(rows, ConstantPool())
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
