"""What is refused, what fails, and several threads: the state is then as it was."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

import MNN
from MNN.errors import MNNError, ShapeError
from tests.runtime.states.models import CACHES, DECODER, Handed, same


def test_what_a_state_says_of_itself() -> None:
    model = MNN.load(DECODER, states=CACHES)
    assert (model.state.length, model.state.shapes) == (0, {})
    assert list(model.inputs) == ["tokens"]
    assert list(model.outputs) == ["logits"]
    model.run({"tokens": np.array([[1, 2, 3]])})
    assert model.state.length == 3
    assert model.state.shapes["past_k0"] == (1, 2, 3, 16)
    assert "4 states" in repr(model)
    with pytest.raises(MNNError, match="'logits' is no state"):
        model.state["logits"]
    with pytest.raises(MNNError, match="empty before the first run"):
        model.new_state()["past_k0"]


def test_bad_use_is_refused() -> None:
    model = MNN.load(DECODER, states=CACHES, max_length=6)
    model.run({"tokens": np.array([[1, 2, 3]])})
    with pytest.raises(MNNError, match="belongs to another model"):
        MNN.load(DECODER, states=CACHES).run({"tokens": np.array([[1]])}, state=model.state)
    with pytest.raises(MNNError, match="would be 7 long, 3 now; max_length is 6"):
        model.run({"tokens": np.array([[1, 2, 3, 4]])})
    assert model.state.length == 3
    with pytest.raises(ShapeError, match="'past_k0' is a state"):
        model.run({"tokens": np.array([[1]]), "past_k0": np.zeros((1, 2, 0, 16), np.float32)})
    with pytest.raises(ShapeError, match="no output 'nothing'"):
        model.run({"tokens": np.array([[1]])}, fetch=["nothing"])
    with pytest.raises(MNNError, match="are 3 long"):
        model.state.rollback(4)
    with pytest.raises(MNNError, match="no input 'past' to be a state"):
        MNN.load(DECODER, states={"past": "present_k0"})
    with pytest.raises(MNNError, match="cannot become input"):
        MNN.load(DECODER, states={"tokens": "logits"})
    with pytest.raises(MNNError, match="must agree"):
        model.run({"tokens": np.array([[1], [2]])})


def test_arguments_of_other_kinds_are_refused() -> None:
    model = MNN.load(DECODER, states=CACHES)
    model.run({"tokens": np.array([[1, 2, 3]])})
    for length in (1.5, "2", None):
        with pytest.raises(MNNError, match="a whole number of rows"):
            model.state.rollback(length)  # type: ignore[arg-type]
    with pytest.raises(MNNError, match="not int"):
        model.run({"tokens": np.array([[1]])}, state=3)  # type: ignore[arg-type]
    assert model.state["past_k0"].shape == (1, 2, 3, 16)
    for most in (0, -1, 2.5):
        with pytest.raises(MNNError, match="max_length is a whole number"):
            MNN.load(DECODER, states=CACHES, max_length=most)  # type: ignore[arg-type]
    with pytest.raises(MNNError, match="outputs by the names of the inputs"):
        MNN.load(DECODER, states=list(CACHES))  # type: ignore[call-overload]


def test_states_that_grow_apart_do_not_go_back() -> None:
    """To as many rows of each: the shorter ones do not have them, and of the others it was another time."""
    info, f32 = helper.make_tensor_value_info, TensorProto.FLOAT
    nodes = [helper.make_node("Concat", ["a", "x"], ["c"], axis=0), helper.make_node("Add", ["x", "x"], ["y"]),
             helper.make_node("Concat", ["b", "x", "x"], ["d"], axis=0)]  # fmt: skip
    inputs = [info(n, f32, [size, 2]) for n, size in (("x", "n"), ("a", "p"), ("b", "q"))]
    outputs = [info(n, f32, [size, 2]) for n, size in (("y", "n"), ("c", "r"), ("d", "s"))]
    made = helper.make_model(
        helper.make_graph(nodes, "apart", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    model = MNN.load(made.SerializeToString(), states={"a": "c", "b": "d"})
    for _ in range(3):
        model.run({"x": np.ones((1, 2), np.float32)})
    for length in (5, 2):
        with pytest.raises(MNNError, match="'a' is 3 long and 'b' 6"):
            model.state.rollback(length)
    assert model.state.shapes == {"a": (3, 2), "b": (6, 2)}
    model.state.rollback(0)
    assert model.state.shapes == {"a": (0, 2), "b": (0, 2)}


def test_a_run_that_fails_leaves_the_state_as_it_was() -> None:
    model, handed, rng = MNN.load(DECODER, states=CACHES), Handed(1), np.random.default_rng(8)
    with pytest.raises(MNNError, match="out of range"):
        model.run({"tokens": np.array([[5000]])})
    for _ in range(6):
        same(model, model.state, handed, rng.integers(0, 1024, (1, 1)), 2e-5)
        with pytest.raises(MNNError, match="out of range"):
            model.run({"tokens": np.array([[5000]])})


def test_a_first_run_that_is_refused_leaves_the_state_empty() -> None:
    model = MNN.load(DECODER, states=CACHES)
    for wrong in ({}, {"token": np.array([[1]])}, {"tokens": np.array([1])}):
        with pytest.raises(ShapeError, match="tokens"):
            model.run(wrong)
        assert model.state.shapes == {}
    with pytest.raises(MNNError, match="out of range"):
        model.run({"tokens": np.array([[9999], [1]])})
    model.run({"tokens": np.array([[1]])})
    assert model.state.shapes["past_k0"] == (1, 2, 1, 16)


def test_two_threads_on_one_state_are_refused() -> None:
    model = MNN.load(DECODER, states=CACHES)
    model.run({"tokens": np.array([[1]])})
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        with model.state._turn():
            inside.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(30)
    try:
        with pytest.raises(MNNError, match="in use by another thread"):
            model.run({"tokens": np.array([[1]])})
        model.run({"tokens": np.array([[1]])}, state=model.new_state())
    finally:
        done.set()
        thread.join()


def test_inputs_of_other_kinds_than_the_last_ones() -> None:
    """What is known of the last step does not let through what would have been refused, nor refuse what fits."""
    model, handed = MNN.load(DECODER, states=CACHES), Handed(1)
    for step in range(12):
        tokens = np.array([[step]])
        given = [tokens, tokens.astype(np.int32), [[step]], tokens.astype(">i8"), tokens.view(np.matrix)][step % 5]
        np.testing.assert_allclose(model.run({"tokens": given})["logits"], handed.run(tokens), atol=1e-4)
        with pytest.raises(MNNError):
            model.run({"tokens": tokens.astype(np.float32)})
        with pytest.raises(MNNError):
            model.run({"tokens": tokens[0]})
        with pytest.raises(ShapeError):
            model.run({"tokens": tokens, "more": tokens})
    assert model.state.length == 12


def test_threads_with_states_of_their_own() -> None:
    model, handed = MNN.load(DECODER, states=CACHES), [Handed(1) for _ in range(3)]
    states = [model.new_state() for _ in handed]
    wanted = [[one.run(np.array([[row * 7 + step]])) for step in range(30)] for row, one in enumerate(handed)]
    wrong: list[float] = []

    def work(row: int) -> None:
        for step in range(30):
            found = model.run({"tokens": np.array([[row * 7 + step]])}, state=states[row])["logits"]
            wrong.append(float(np.abs(found - wanted[row][step]).max()))

    threads = [threading.Thread(target=work, args=(row,)) for row in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 90
    assert max(wrong) < 1e-4
