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


@pytest.mark.parametrize("which", [0, 1])
def test_sizes_that_are_results_of_an_operator_with_several(which: int) -> None:
    module, x = _model(), F.placeholder([4, 3])
    x.write(np.ones((4, 3)))
    sizes = F.split(F.shape(x), [1, 1], 0)
    optim.SGD(module, 0.5, 0.0).step(F.reduce_sum(F.tile(module.w, sizes[which])))
    np.testing.assert_allclose(module.w.read(), np.array([1, 2, 3]) - 0.5 * (4, 3)[which])


def test_several_results_decide_sizes() -> None:
    module, x = _model(), F.placeholder([4, 3])
    x.write(np.ones((4, 3)))
    first, second = F.split(F.shape(x), [1, 1], 0)
    rows, columns = F.unstack(F.shape(x))
    many = F.concat([F.tile(module.w, first), F.tile(module.w, second)], 0)
    loss = F.reduce_sum(many) + F.reduce_sum(F.broadcast_to(module.w, F.stack([rows, columns])))
    optim.SGD(module, 0.5, 0.0).step(loss)
    np.testing.assert_allclose(module.w.read(), np.array([1, 2, 3]) - 0.5 * (4 + 3 + 4))


@pytest.mark.parametrize(
    "options", [{}, {"clip_norm": 1.0}, {"loss_scale": 8.0}, {"loss_scale": "dynamic"}, {"debug": True}]
)
def test_the_last_of_several_losses_is_no_number(options: dict[str, object]) -> None:
    module = _model()
    optimizer = optim.ADAM(module, 0.1, accumulate=2, **options)
    optimizer.step(F.reduce_sum(module.w * module.w))
    with pytest.raises(MNN.errors.RunError, match="left as they were"):
        optimizer.step(F.reduce_sum(module.w * np.float32(np.nan)))
    np.testing.assert_array_equal(module.w.read(), [1, 2, 3])
    assert optimizer.steps == 0
    for _ in range(2):
        optimizer.step(F.reduce_sum(module.w * module.w))
    np.testing.assert_allclose(module.w.read(), [0.9, 1.9, 2.9], rtol=1e-5)  # what was left out is not added
    assert optimizer.steps == 1


def test_parameters_and_placeholders_stay_what_they_are() -> None:
    module, x = nn.Module(), F.placeholder([2, 3])
    module.first, module.last = nn.linear(3, 4), nn.linear(4, 1)
    x.write(np.ones((2, 3)))
    optimizer = optim.SGD(module, 0.1, 0.0, clip_norm=100.0)
    for _ in range(2):
        before = {name: v.read() for name, v in module.named_parameters().items()}
        hidden = module.first(x)
        loss = F.reduce_sum(module.last(hidden))
        optimizer.step(loss, [module.first.weight, x, hidden, module.last.bias, loss])
        assert (module.first.weight.op_type, x.op_type) == ("Trainable", "Input")
        np.testing.assert_allclose(
            hidden.read(), np.ones((2, 3)) @ before["first.weight"].T + before["first.bias"], rtol=1e-5
        )
        np.testing.assert_allclose(module.last.bias.read(), before["last.bias"] - 0.2, rtol=1e-5)
        np.testing.assert_allclose(
            module.first.weight.read(), before["first.weight"] - 0.2 * before["last.weight"].T, rtol=1e-5
        )


def test_a_parameter_that_is_the_loss() -> None:
    module = nn.Module()
    module.w = F.const([3.0], [1])
    optimizer = optim.SGD(module, 0.5, 0.0)
    for _ in range(2):
        optimizer.step(module.w)
    np.testing.assert_array_equal(module.w.read(), [2])
