"""What is written to, trained, or used by several threads at once leaves everything else as it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import MNN.expr as F  # noqa: N812 - as PyMNN's documentation has it
import MNN.numpy as mp
from MNN import MNNError, nn, optim
from MNN.expr.fused import loops
from MNN.expr.var import Var

PLAIN: dict[str, Callable[[int], Var]] = {
    "scalar": F.scalar,
    "transpose": F.transpose,
    "cast": lambda k: F.cast(k, F.int),
    "positive": mp.positive,
    "clip": lambda k: mp.clip(k, None, None),
}


@pytest.mark.parametrize("number", range(len(PLAIN)))
def test_numbers_that_are_written_to_are_their_own(number: int) -> None:
    value = 7001 + number
    made = list(PLAIN.values())[number](value)
    made.write([-1])
    assert F.scalar(value).read() == value
    made.fix_as_trainable()
    assert F.scalar(value).op_type == "Const"


class Product(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = F.const(np.ones((100, 100)), [100, 100])
        self.w.fix_as_trainable()

    def forward(self, x: Var) -> Var:
        return F.matmul(x, self.w)


def fixed(make: Callable[[Var], Var]) -> Callable[[Var], Var]:
    def made(w: Var) -> Var:
        found = make(w)
        found.fix_as_const()
        return found

    return made


def target(w: Var) -> Var:
    found = F.const(np.zeros((100, 100)), [100, 100])
    found.fix_as_trainable()
    found.replace(w)
    return found


def seen(w: Var) -> Var:
    w.fix_as_const()
    found = F.reshape(w, [-1])
    w.fix_as_trainable()
    return found


@pytest.mark.parametrize("take", [fixed(lambda w: F.reshape(w, [-1])), fixed(F.transpose), target, seen])
def test_training_leaves_what_was_taken_of_parameters(take: Callable[[Var], Var]) -> None:
    model, x = Product(), F.const(np.ones((4, 100)), [4, 100])
    optimizer = optim.SGD(model, 0.1)
    model.train(True)
    optimizer.step(F.reduce_mean(F.square(model.forward(x))))
    taken, before = take(model.w), model.w.read()
    first = taken.read()
    optimizer.step(F.reduce_mean(F.square(model.forward(x))))
    assert not np.array_equal(model.w.read(), before)
    np.testing.assert_array_equal(taken.read(), first)


@pytest.mark.parametrize("sizes", [[-2], [2, -3], [-5, 3]])
def test_sizes_below_minus_one_are_refused(sizes: list[int]) -> None:
    with pytest.raises(MNNError, match="at most one size may be -1, none below"):
        F.reshape(mp.array(np.arange(6, dtype=np.float32)), sizes)


@pytest.mark.parametrize("kind", [F.float, F.double])
def test_halves_of_results_share_their_memory(kind: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "COMPILE_AFTER", 0)  # results lie in memory that is used again
    whole = mp.array(np.ones((1600, 500), np.float32)).astype(kind) * 2 + 1
    array = whole._array()
    assert np.shares_memory(F.split(whole, 2, 0)[0]._array(), array)
    assert np.shares_memory(mp.flip(whole, 0)._array(), array)
    assert not np.shares_memory(F.split(whole, 8, 0)[0]._array(), array)


BEGINNING = """
import threading
import numpy as np
import MNN.expr as F
wrong = []
ready = threading.Barrier(4)
def work():
    x = F.const(np.ones((600, 500)), [600, 500])
    ready.wait()
    try:
        F.transpose(x, [1, 0]).read()
    except Exception as error:
        wrong.append(error)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
"""


def test_threads_that_need_operators_first_wait_for_them() -> None:
    subprocess.run([sys.executable, "-c", BEGINNING], check=True, timeout=60)
