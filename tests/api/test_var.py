"""Vars: evaluation, placeholders, indexing, numpy's side, errors."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import MNN
import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN.errors import MNNError, ShapeError
from MNN.expr import compute
from MNN.expr import var as var_module
from MNN.expr.arrays import places
from tests.api.models import classifier, write

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def var(array: np.ndarray, layout: F.data_format = F.NCHW) -> F.Var:
    kinds = {"f": F.float, "i": F.int, "u": F.uint8}
    return F.const(array, array.shape, layout, kinds[array.dtype.kind])


INDICES = [
    0, -1, (0, 1), (0, 1, 2), (1, -1), slice(None, None, -1), (..., slice(None, None, -1)), (slice(1, None), 2),
    (slice(None), slice(0, 2)), None, (None, 0), (0, None), (..., None), (0, ..., 1), (slice(None), None, slice(1, 3)),
    (slice(None, None, 2), slice(None, None, -2)), (slice(0, 0),), (slice(-2, None), slice(None, -1)),
    True, False, (slice(None), True), (..., False, slice(1, 3)), (None, slice(1, 2), True), (..., True),
]  # fmt: skip


@pytest.mark.parametrize("key", INDICES, ids=str)
def test_indexing_of_constants_and_expressions(key: object) -> None:
    wanted = X[key]  # type: ignore[index]
    np.testing.assert_array_equal(np.asarray(var(X)[key]), wanted)
    p = F.placeholder([2, 3, 4])
    lazy = (p + 0.0)[key]
    assert lazy.shape == list(wanted.shape)
    p.write(X)
    np.testing.assert_array_equal(lazy.read(), wanted)


def test_masks_lists_and_assignment() -> None:
    v = var(X)
    np.testing.assert_array_equal(v[v > 5].read(), X[X > 5])
    np.testing.assert_array_equal(v[[1, 0, 1]].read(), X[[1, 0, 1]])
    np.testing.assert_array_equal(v[:, [0, 2]].read(), X[:, [0, 2]])
    np.testing.assert_array_equal(v[F.const([1], [1], F.NCHW, F.int)].read(), X[[1]])
    p = F.placeholder([2, 3, 4])
    chosen, rows = p[p > 5], p[F.const([1], [1], F.NCHW, F.int)]
    p.write(X)
    np.testing.assert_array_equal(chosen.read(), X[X > 5])
    np.testing.assert_array_equal(rows.read(), X[[1]])
    v[0] = 7.0
    v[v > 20] = -1
    wanted = X.copy()
    wanted[0] = 7
    wanted[wanted > 20] = -1
    np.testing.assert_array_equal(v.read(), wanted)
    assert X[0, 0, 0] == 0, "the array it came from stays as it was"


@pytest.mark.parametrize("key", [5, (0, 9), (0, 0, 0, 0), "name", 1.5])
def test_bad_indices(key: object) -> None:
    for v in (var(X), F.placeholder([2, 3, 4]) * 2.0):
        with pytest.raises(MNNError):
            v[key]
        with pytest.raises((IndexError, MNNError)):
            v[key]


def test_iteration_ends() -> None:
    assert [row.shape for row in var(X)] == [[3, 4], [3, 4]]
    assert list(var(np.float32([1, 2]))) == [1.0, 2.0]
    with pytest.raises(TypeError):
        len(F.scalar(1.0))


def test_constants_are_computed_at_once_and_keep_no_history() -> None:
    v = var(X) * 2.0 + 1.0
    assert v.op_type == "Const"
    assert v.inputs == []
    F.lazy_eval(True)
    try:
        lazy = var(X) * 2.0
        assert lazy.op_type == "MUL"
        assert len(lazy.inputs) == 2
        np.testing.assert_array_equal(lazy.read(), X * 2)
    finally:
        F.lazy_eval(False)


def test_expressions_follow_their_placeholders() -> None:
    x = F.placeholder([2, 2])
    y = F.relu(F.matmul(x, F.const([1.0, 0.0, 0.0, -1.0], [2, 2])) + 1.0)
    total = y.sum()
    assert y.shape == [2, 2]
    with pytest.raises(MNNError, match="holds no numbers yet"):
        y.read()
    assert "no numbers yet" in repr(y)
    x.write([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(y.read(), [[2, 0], [4, 0]])
    assert float(total) == 6
    x.write(np.zeros((2, 2)))
    assert float(total) == 4
    x.resize([3, 2])
    assert y.shape == [3, 2]
    x.write(np.ones(6))
    assert float(total) == 6
    x.resize([3, 3])
    assert not y.valid
    with pytest.raises(ShapeError):
        _ = y.shape


def test_misfits_raise_where_they_are_written() -> None:
    x = F.placeholder([2, 3])
    with pytest.raises(ShapeError, match="MatMul"):
        F.matmul(x, x)
    with pytest.raises(ShapeError):
        x + F.placeholder([4])
    with pytest.raises(ShapeError, match="5 numbers"):
        x.write([1, 2, 3, 4, 5])
    with pytest.raises(MNNError):
        x.write(["a"] * 6)
    with pytest.raises(MNNError, match="computed by ADD"):
        (x + 1.0).write([1.0] * 6)
    with pytest.raises(MNNError, match="no data format"):
        F.convert(x, "NHWC")
    with pytest.raises(MNNError, match="element type"):
        x.astype("colour")
    with pytest.raises(ShapeError):
        F.const([1.0, 2.0], [3])


def test_shapes_of_shapes() -> None:
    x = F.placeholder([2, 3, 4])
    y = F.reshape(x, [0, -1])
    flat = F.broadcast_to(F.scalar(1.0), F.shape(x))
    assert (y.shape, flat.shape) == ([2, 12], [2, 3, 4]), "known before there are numbers"
    x.resize([5, 1, 2])
    assert (y.shape, flat.shape) == ([5, 2], [5, 1, 2])


def test_where_needs_numbers() -> None:
    x = F.placeholder([4])
    x.write([0, 1, 0, 1])
    found = F.where(x)
    assert found.shape == [2, 1]
    x.write([1, 1, 1, 0])
    assert found.shape == [3, 1]


def test_kinds_of_leaves() -> None:
    x = F.const([1.0, 2.0], [2])
    x.fix_as_placeholder()
    y = x * 3.0
    x.write([5.0, 6.0])
    assert y.read_as_tuple() == (15.0, 18.0)
    x.fix_as_trainable()
    assert x.op_type == "Trainable"
    y.fix_as_const()
    x.write([0.0, 0.0])
    assert y.read_as_tuple() == (15.0, 18.0)
    x.name = "weights"
    assert x.name == "weights"
    z = F.const([0.0, 0.0], [2])
    z.replace(x)
    assert z.name == "weights"


def test_numpy_understands_vars() -> None:
    v = var(X)
    assert np.array(v).dtype == np.float32
    assert np.asarray(v, np.float64).dtype == np.float64
    assert isinstance(X * v, F.Var)
    assert isinstance(np.float32(2) * v, F.Var)
    np.testing.assert_array_equal((X - v * 2).read(), -X)
    assert np.mean(np.asarray(v)) == v.mean()
    copy = v.read()
    copy[...] = 0
    assert v[0, 0, 1] == 1


def test_layouts() -> None:
    image = var(np.arange(30, dtype=np.float32).reshape(1, 2, 3, 5))
    last = F.convert(image, F.NHWC)
    assert last.shape == [1, 3, 5, 2]
    np.testing.assert_array_equal(last.read(), image.read().transpose(0, 2, 3, 1))
    packed = F.convert(last, F.NC4HW4)
    assert packed.shape == image.shape
    np.testing.assert_array_equal(packed.read(), image.read())
    vector = F.convert(F.const([1.0, 2.0], [2]), F.NHWC)
    assert vector.read_as_tuple() == (1.0, 2.0)
    p = F.placeholder([1, 2, 3, 5])
    moved = F.convert(p, F.NHWC)
    p.write(image.read())
    np.testing.assert_array_equal(moved.read(), last.read())
    image.reorder(F.NHWC)
    assert image.data_format is F.NHWC
    np.testing.assert_array_equal(image.read(), last.read())


def test_heavy_operators_are_compiled() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((512, 400), np.float32), rng.standard_normal((400, 512), np.float32)
    before = len(compute._cache)
    found = F.matmul(var(a), var(b)).read()
    assert len(compute._cache) == before + 1
    np.testing.assert_allclose(found, a @ b, rtol=1e-3, atol=1e-3)


def test_expressions_that_are_run_often_are_compiled() -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((256, 256), np.float32) / 16
    x = F.placeholder([256, 256])
    y = F.softmax(F.relu(F.matmul(x, var(w))) + (F.shape(x)[0] > 3))
    for i in range(20):
        a = rng.standard_normal((256, 256), np.float32)
        x.write(a)
        power = np.exp(np.maximum(a @ w, 0) + 1)
        np.testing.assert_allclose(y.read(), power / power.sum(-1, keepdims=True), rtol=1e-4, err_msg=str(i))
    assert y._expr._executor is not None


def test_models_as_expressions(tmp_path: Path) -> None:
    path = write(classifier(), tmp_path, "mnn")
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    inputs, outputs = F.get_inputs_and_outputs(F.load_as_dict(path))
    assert (list(inputs), list(outputs)) == (["data"], ["prob"])
    inputs["data"].write(image)
    wanted = MNN.load(path)(image)
    np.testing.assert_allclose(outputs["prob"].read(), wanted, rtol=1e-4, atol=1e-6)
    more = outputs["prob"] * 2.0
    more.name = "twice"
    F.save([more, outputs["prob"]], tmp_path / "saved.mnn")
    saved = MNN.load(tmp_path / "saved.mnn").run({"data": image})
    np.testing.assert_allclose(saved["twice"], 2 * wanted, rtol=1e-4, atol=1e-6)
    assert set(saved) == {"twice", "prob"}
    assert len(F.load_as_list(path)) > 5


def test_numbers_python_gives() -> None:
    assert mp.array(np.arange(3)).dtype is F.int
    assert mp.array([2**40]).dtype is F.int64
    assert mp.array(np.float64([1.5])).dtype is F.float
    assert mp.array(np.uint8([200])).dtype is F.uint8
    assert (mp.array(np.uint8([200])) + 100).read().tolist() == [300]
    assert (mp.array(np.uint8([3])) - (0.5,)).read().tolist() == [2.5]
    for bad in ("text", [[1], [1, 2]], object(), 1j):
        with pytest.raises(MNNError):
            mp.array(bad)
    with pytest.raises(MNNError, match="truth of 2 elements"):
        bool(mp.array([1, 2]))


def test_operands_can_be_exchanged() -> None:
    a, b = F.placeholder([2]), F.placeholder([2])
    a.write([1.0, 2.0])
    b.write([10.0, 20.0])
    total = a + a
    twice = total * 2.0
    assert twice.read_as_tuple() == (4.0, 8.0)
    total.set_inputs([a, b])
    assert twice.read_as_tuple() == (22.0, 44.0)
    b.write([0.0, 1.0])
    assert twice.read_as_tuple() == (2.0, 6.0)
    with pytest.raises(MNNError, match="operands"):
        total.set_inputs([a])
    with pytest.raises(MNNError, match="itself"):
        total.set_inputs([twice, a])


def test_what_uses_a_var_uses_what_replaces_it() -> None:
    """Constants, placeholders and results; but for what is computed from the Var itself."""
    p = F.placeholder([3])
    p.write(np.ones(3, np.float32))
    for kind in ("constant", "placeholder", "result", "several"):
        v = {"constant": var(np.ones(3, np.float32)), "placeholder": F.placeholder([3]), "result": p + 0.0,
             "several": F.split(F.concat([p, p], 0), [3, 3], 0)[1]}[kind]  # fmt: skip
        if kind == "placeholder":
            v.write(np.ones(3, np.float32))
        user = v * p + 1.0
        np.testing.assert_array_equal(user.read(), np.full(3, 2.0))
        v.replace(user)
        np.testing.assert_array_equal(v.read(), np.full(3, 2.0))
        if kind != "placeholder":  # which has taken the numbers
            np.testing.assert_array_equal(user.read(), np.full(3, 2.0))
            v = user
            user = v * p + 1.0
            v.replace(F.reshape(p * 6.0, [1, 3]))
            np.testing.assert_array_equal(user.read(), np.full((1, 3), 7.0))
            assert (user.shape, v.shape) == ([1, 3], [1, 3])
            p.write(np.full(3, 2.0, np.float32))
            np.testing.assert_array_equal(user.read(), np.full((1, 3), 25.0))
            p.write(np.ones(3, np.float32))


def test_numbers_have_an_address() -> None:
    v = F.const([1.0, 2.0], [2])
    assert F.const(v.ptr, [2]).read_as_tuple() == (1.0, 2.0)
    v.sync()
    assert mp.array([1, 3, 5]).searchsorted(4) == 2
    assert mp.array([5, 3, 1]).argpartition(0).read()[0] == 2
    with pytest.raises(MNNError, match="CPU"):
        v.set_device_ptr(1, 2)
    with pytest.raises(MNNError, match="CPU"):
        v.copy_to_device_ptr(1, 2)


def test_arrays_are_shared_or_copied() -> None:
    """``numpy.asarray`` of a constant copies nothing and cannot be written to; what training changes is copied."""
    v = F.const([1.0, 2.0, 3.0], [3])
    shared = np.asarray(v * 1.0)
    with pytest.raises(ValueError, match="read-only"):
        shared[0] = 5
    for copy in (np.array(v), v.read(), np.asarray(v, np.float64)):
        copy[0] = 9
        assert v.read_as_tuple() == (1.0, 2.0, 3.0)
    before = np.asarray(v)
    v[0] = 7.0
    assert before.tolist() == [1.0, 2.0, 3.0]
    v.fix_as_trainable()
    mine = np.asarray(v)
    mine[0] = 0.0
    assert v.read_as_tuple() == (7.0, 2.0, 3.0)


def test_what_is_missing_says_so() -> None:
    with pytest.raises(AttributeError, match="numpy has it"):
        _ = mp.isin
    with pytest.raises(AttributeError):
        _ = MNN.nonsense


def test_every_method_that_is_declared_has_its_code() -> None:
    """``var`` declares methods, ``operators`` gives them their code."""
    (declaring,) = (n for n in ast.parse(inspect.getsource(var_module)).body if isinstance(n, ast.ClassDef))
    methods = [n for n in declaring.body if isinstance(n, ast.FunctionDef)]
    empty = {
        m.name for m in methods if all(isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant) for n in m.body)
    }
    assert {"__add__", "reshape", "sum"} <= empty
    python = {entry: usual for usual, entry in places.ENTRIES.items()}
    for name in empty:
        method = getattr(F.Var, name)
        method = inspect.unwrap(python.get(method, method))
        assert method.__code__.co_filename.endswith(("operators.py", "direct.py")), name
        assert method.__qualname__ == f"Var.{name}"
    assert F.Var.sum.__doc__ == "The sum."
