"""What Python's and numpy's own protocols do with Vars: shifts, ``in``, ``divmod``, ``format``, DLPack, lists."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN.errors import MNNError
from MNN.expr.arrays import few

KINDS = {"i4": F.int, "u1": F.uint8}


def _pair(seed: int) -> tuple[Any, Any, Any]:
    """Numbers, what they are shifted by (by more bits than there are, too), and the kind."""
    random = np.random.default_rng(seed)
    kind = str(random.choice(list(KINDS)))
    shape = tuple(random.integers(1, 5, int(random.integers(1, 4))).tolist())
    low = -3 if kind == "i4" else 0
    x, y = (random.integers(low * far, 120, shape).astype(kind) for far in (40, 1))
    return x, y % 9 if seed % 2 else y, KINDS[kind]


@pytest.mark.parametrize("seed", range(12))
def test_shifts_and_divmod(seed: int) -> None:
    x, y, kind = _pair(seed)
    place = F.placeholder(list(x.shape), F.NCHW, kind)
    place.write(x)
    for v in (mp.array(x), place):
        np.testing.assert_array_equal(np.asarray(v << y), x << y)
        np.testing.assert_array_equal(np.asarray(v >> y), x >> y)
        np.testing.assert_array_equal(np.asarray(y >> v), y >> x)
        np.testing.assert_array_equal(np.asarray(y << v), y << x)
        for mine, theirs in zip(divmod(v, y + (y == 0)), divmod(x, y + (y == 0)), strict=True):
            np.testing.assert_array_equal(np.asarray(mine), theirs)
        assert v.tolist() == x.tolist()
        np.testing.assert_array_equal(np.asarray(v.T), x.T)
        number = int(x.ravel()[-1])
        assert number in v
        assert 1000 not in v


def test_other_libraries_get_a_copy() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for v in (mp.array(array), mp.array(array) * 2):
        want = v.read()
        shared = np.from_dlpack(v)
        np.testing.assert_array_equal(shared, want)
        assert not np.may_share_memory(shared, np.asarray(v))
        assert v.__dlpack_device__() == (1, 0)
        with pytest.raises(BufferError, match="as a copy"):
            v.__dlpack__(copy=False)


def test_other_libraries_beside_older_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.1 numpy knows nothing of versions and devices of capsules, and before 2 its functions lie elsewhere."""

    class Older(np.ndarray):
        def __dlpack__(self, *, stream: None = None) -> Any:  # type: ignore[override]
            return np.asarray(self).__dlpack__()

    v = mp.array([1.0, 2.0])
    monkeypatch.setattr(type(v), "read", lambda self: np.array([1.0, 2.0]).view(Older))
    v.__dlpack__()
    with pytest.raises(TypeError, match="max_version"):  # by which other libraries know
        v.__dlpack__(max_version=(1, 0))
    inner = SimpleNamespace(clip=np.clip)
    monkeypatch.setattr(few, "np", SimpleNamespace(_core=SimpleNamespace(), core=SimpleNamespace(umath=inner)))
    assert few._clip() is np.clip


def test_format() -> None:
    one = mp.array(2.5)
    assert f"{one:6.2f}|{one}" == f"  2.50|{one.read()!r}"
    with pytest.raises(MNNError, match="6 elements"):
        f"{mp.ones([2, 3]):.2f}"


def test_round() -> None:
    np.testing.assert_array_equal(np.asarray(round(mp.array([0.26, -1.64]), 1)), np.float32([0.3, -1.6]))


def test_truths_have_no_other_bits() -> None:
    """As truth values are 0 and 1, ``x[~(x > 2)]`` would pick the wrong elements without a word."""
    with pytest.raises(MNNError, match="logical_not"):
        ~(mp.array([1, 2, 3]) > 2)
