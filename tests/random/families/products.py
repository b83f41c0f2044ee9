"""MatMul, Gemm, MatMulInteger and Einsum."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.random.case import Case, Draw, Operand


def case(draw: Draw) -> Case:
    return draw.choice([_matmul, _matmul, _gemm, _integers, _einsum, _einsum])(draw)


def _size(draw: Draw) -> int:
    return int(draw.choice([1, 2, 3, 5, 7, 8, 9, 16, 17, 33]))


def _pair(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes that MatMul takes, with vectors and batches that broadcast."""
    m, n, k = _size(draw), _size(draw), _size(draw)
    batch = draw.shape(draw.int(0, 3), 1, 3)
    left, right = (tuple(1 if draw.flag(0.3) else d for d in batch)[draw.int(0, len(batch)) :] for _ in "12")
    a = (k,) if draw.flag(0.1) else (*left, m, k)
    b = (k,) if draw.flag(0.1) else (*right, k, n)
    return a, b


def _matmul(draw: Draw) -> Case:
    left, right = _pair(draw)
    kind = draw.often(np.float32, [np.float64, np.int32], 0.85)
    a, b = (draw.normal(*s, dtype=kind) if kind is not np.int32 else draw.rng.integers(-9, 9, s).astype(kind)
            for s in (left, right))  # fmt: skip

    def oracle(arrays: list[Any]) -> list[Any]:
        found = np.matmul(*(v.astype(np.float64) for v in arrays))
        return [np.asarray(found).astype(np.int32) if kind is np.int32 else found]

    return Case("MatMul", [Operand(a, draw.flag(0.8)), Operand(b, draw.flag())], opset=13, scale="products",
                oracle=oracle)  # fmt: skip


def _gemm(draw: Draw) -> Case:
    m, n, k = _size(draw), _size(draw), _size(draw)
    turned = draw.flag(), draw.flag()
    alpha, beta = draw.choice([1.0, 0.5, -2.0]), draw.choice([1.0, 0.3, 0.0])
    a = draw.normal(*((k, m) if turned[0] else (m, k)))
    b = draw.normal(*((n, k) if turned[1] else (k, n)))
    c = draw.normal(*draw.choice([(m, n), (1, n), (n,), (m, 1), (1, 1), (1,), ()])) if draw.flag(0.8) else None
    attributes: dict[str, Any] = {f"trans{'AB'[i]}": 1 for i in range(2) if turned[i]}
    if alpha != 1 or draw.flag():
        attributes["alpha"] = alpha
    if beta != 1 or draw.flag():
        attributes["beta"] = beta

    def product(alpha: float, beta: float, arrays: list[Any]) -> list[Any]:
        x, y = (v.astype(np.float64).T if t else v.astype(np.float64) for v, t in zip(arrays, turned, strict=False))
        found = alpha * (x @ y)
        return [found if len(arrays) < 3 else found + beta * arrays[2].astype(np.float64)]

    inputs = [Operand(a), Operand(b, draw.flag()), *([] if c is None else [Operand(np.asarray(c), draw.flag())])]
    return Case("Gemm", inputs, attributes, opset=13, oracle=lambda arrays: product(alpha, beta, arrays),
                sums=lambda arrays: product(abs(alpha), beta, [np.abs(v) for v in arrays]))  # fmt: skip


def _integers(draw: Draw) -> Case:
    left, right = _pair(draw)
    if len(left) == 1 or len(right) == 1:
        left, right = (3, right[0]) if len(left) == 1 else (*left[:-1], 4), (4, 5)
        left = (*left[:-1], 4)
    kinds = draw.choice([("u1", "u1"), ("u1", "i1"), ("i1", "i1")])
    # ranges in which sums of two products of bytes do not saturate, on processors where they do
    a, b = (draw.rng.integers(np.iinfo(t).min // 2, np.iinfo(t).max // 2 + 1, s).astype(t)
            for t, s in zip(kinds, (left, right), strict=True))  # fmt: skip
    inputs = [Operand(a), Operand(b, draw.flag())]
    if draw.flag(0.7):
        inputs.append(Operand(np.array(draw.int(0, 100), kinds[0]), False))
        if draw.flag():
            columns = draw.flag(0.4)
            zero = draw.rng.integers(0, 100, b.shape[-1:] if columns and b.ndim == 2 else ()).astype(kinds[1])
            inputs.append(Operand(np.asarray(zero, kinds[1]), False))

    def oracle(arrays: list[Any]) -> list[Any]:
        x, y = (arrays[k].astype(np.int64) - (arrays[k + 2].astype(np.int64) if len(arrays) > k + 2 else 0)
                for k in range(2))  # fmt: skip
        return [np.matmul(x, y).astype(np.int32)]

    return Case("MatMulInteger", inputs, opset=10, scale="exact", oracle=oracle)


def _einsum(draw: Draw) -> Case:
    letters = {c: draw.int(1, 5) for c in "ijklm"}
    count = draw.choice([1, 2, 2, 2, 3])
    terms = ["".join(draw.rng.permutation(list(letters))[: draw.int(1, 3)]) for _ in range(count)]
    if count == 1 and draw.flag(0.3):
        terms[0] += terms[0][0]  # a diagonal
    dots = draw.shape(draw.int(1, 2), 1, 3) if draw.flag(0.2) else None
    used = sorted(set("".join(terms)))
    equation = ",".join(("..." if dots else "") + t for t in terms)
    if draw.flag(0.85):
        kept = [c for c in used if draw.flag()]
        equation += "->" + ("..." if dots else "") + "".join(draw.rng.permutation(kept) if kept else [])
    arrays = [draw.normal(*(dots or ()), *(letters[c] for c in t)) for t in terms]
    return Case("Einsum", [Operand(a, k == 0 or draw.flag()) for k, a in enumerate(arrays)], {"equation": equation},
                opset=12, scale="products", slack=2,
                oracle=lambda a: [np.einsum(equation, *(v.astype(np.float64) for v in a))])  # fmt: skip
