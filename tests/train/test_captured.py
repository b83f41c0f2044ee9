"""Steps on expressions whose sizes are results of operators with several, and on what is more than operators."""

from __future__ import annotations

import numpy as np
import pytest

import MNN

F, nn, optim = MNN.expr, MNN.nn, MNN.optim


def _model() -> nn.Module:
    module = nn.Module()
    module.w = F.const([1.0, 2.0, 3.0], [3])
    return module


@pytest.mark.parametrize("which", (0, 1))
def test_sizes_that_are_results_of_an_operator_with_several(which: int) -> None:
    module, x = _model(), F.placeholder([4, 3])
    x.write(np.ones((4, 3)))
    sizes = F.split(F.shape(x), [1, 1], 0)
    times = [[4], [3]][which][0]
    optim.SGD(module, 0.5, 0.0).step(F.reduce_sum(F.tile(module.w, sizes[which])))
    np.testing.assert_allclose(module.w.read(), np.array([1, 2, 3]) - 0.5 * times)


def test_several_results_decide_sizes() -> None:
    module, x = _model(), F.placeholder([4, 3])
    x.write(np.ones((4, 3)))
    first, second = F.split(F.shape(x), [1, 1], 0)
    rows, columns = F.unstack(F.shape(x))
    many = F.concat([F.tile(module.w, first), F.tile(module.w, second)], 0)
    loss = F.reduce_sum(many) + F.reduce_sum(F.broadcast_to(module.w, F.stack([rows, columns])))
    optim.SGD(module, 0.5, 0.0).step(loss)
    np.testing.assert_allclose(module.w.read(), np.array([1, 2, 3]) - 0.5 * (4 + 3 + 4))
