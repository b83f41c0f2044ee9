"""Orders and groups that sizes of a range have in common: what is taken over is what would be found."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from MNN.compiler import structure as st
from MNN.compiler.fuse import Group
from MNN.compiler.usage import consumers
from MNN.ir.dtype import DType
from MNN.ir.prims import Prim, Tensor
from MNN.ir.traced import Trace
from MNN.ir.verify_primitives import ProgramError
from MNN.ops.core.builder import Builder
from MNN.ops.reducing.softmax import softmax

Stage = tuple[list[Prim], Tensor, Tensor]


def traces(*numbers: int) -> list[Trace]:
    decided: dict[object, object] = {}
    return [Trace({"n": n}, {"n": 64}, decided) for n in numbers]


def attention(trace: Trace) -> Stage:
    """Heads, scores with a mask, softmax and what follows: views, products with epilogues, rows and maps."""
    b, n = Builder(), trace.size("n")
    x = Tensor(DType.F32, (1, n, 32), name="x")
    heads = b.permute(b.reshape(x, (1, n, 2, 16)), (0, 2, 1, 3))
    scores = b.op("mul", b.matmul(heads, b.permute(heads, (0, 1, 3, 2))), b.like(0.25, x))
    mixed = b.permute(b.matmul(softmax(b, scores, 3), heads), (0, 2, 1, 3))
    return b.prims, x, b.op("add", b.clamp(b.reshape(mixed, (1, n, 32)), 0, None), x)


def found(stage: Stage) -> tuple[object, list[tuple[object, ...]]]:
    prims, x, out = stage
    return told(prims, *st.structure(prims, [x], [out], consumers(prims)))


def alone(stage: Stage) -> tuple[object, list[tuple[object, ...]]]:
    prims, x, out = stage
    return told(prims, *st._found(prims, [x], [out], consumers(prims)))


def told(prims: Sequence[Prim], orders: st.Orders, groups: Sequence[Group]) -> tuple[object, list[tuple[object, ...]]]:
    at = {id(q): i for i, q in enumerate(prims)}
    named = [
        (
            g.kind,
            [at[id(q)] for q in g.prims],
            [str(getattr(n, "size", n)) for n in g.shape],
            g.axes,
            at.get(id(g.anchor)),
        )
        for g in groups
    ]
    return [orders.get(t) for q in prims for t in q.outputs], named


def test_other_sizes_take_over_what_one_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    take = st._taken
    monkeypatch.setattr(st, "_taken", lambda *given: taken.append(given) or take(*given))
    own = traces(14, 3, 31)
    for trace in own:
        assert found(attention(trace)) == alone(attention(Trace(trace.numbers, trace.rooms)))
    assert len(taken) == 2
    assert own[0].compared.keys() == own[1].compared.keys() == own[2].compared.keys()


def test_where_sizes_compare_otherwise_nothing_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "_taken", lambda *given: pytest.fail("a comparison comes out otherwise"))
    one, other = traces(14, 3)
    found(attention(one))
    key, known = next(iter(one.decided.items()))
    one.decided[key] = known._replace(compared={**known.compared, ("<", 12, "n"): True})
    assert found(attention(other)) == alone(attention(Trace(other.numbers, other.rooms)))


def test_where_primitives_take_other_tensors_nothing_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(trace: Trace) -> Stage:
        b, n = Builder(), trace.size("n")
        x = Tensor(DType.F32, (n, 4), name="x")
        either = b.op("exp", x), b.op("log", x)
        return b.prims, x, b.op("add", b.op("sin", either[n > 12]), b.op("mul", *either))

    monkeypatch.setattr(st, "_taken", lambda *given: pytest.fail("the sine is of another tensor"))
    one, other = traces(14, 3)
    found(build(one))
    assert found(build(other)) == alone(build(Trace(other.numbers, other.rooms)))


def test_verified_builds_find_what_is_taken_over_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_VERIFY", "1")
    one, other = traces(14, 3)
    found(attention(one))
    key, known = next(iter(one.decided.items()))
    one.decided[key] = known._replace(groups=[g._replace(axes=(0,)) for g in known.groups])
    with pytest.raises(ProgramError, match="another size of the range"):
        found(attention(other))
