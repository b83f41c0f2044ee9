"""``MNN.load``: copies of models, what they say of themselves, and arguments of the wrong kind."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.frontends import load_graph
from tests.frontends.tflite.test_files import two_entries

DIGITS = str(resources.files("MNN") / "assets" / "digits.onnx")
IMAGE = np.random.default_rng(0).uniform(0, 1, (1, 1, 8, 8)).astype(np.float32)


def answer(model: MNN.model.Model) -> bytes:
    return model.run({"image": IMAGE})["probability"].tobytes()


@pytest.mark.parametrize("source", [DIGITS, Path(DIGITS), Path(DIGITS).read_bytes()], ids=["text", "path", "bytes"])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_answer_alike(source, copied) -> None:
    model = MNN.load(source, threads=2, precision="high")
    expected = answer(model)
    other = copied(model)
    assert other is not model
    assert (other.config, answer(other)) == (model.config, expected)


def test_models_go_to_other_processes() -> None:
    model = MNN.load(DIGITS)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(answer, (model,)) == answer(model)


def test_a_pickle_finds_its_file_from_elsewhere(tmp_path, monkeypatch) -> None:
    (tmp_path / "digits.onnx").write_bytes(Path(DIGITS).read_bytes())
    monkeypatch.chdir(tmp_path)
    model = MNN.load("digits.onnx")
    data, expected = pickle.dumps(model), answer(model)
    monkeypatch.chdir("/")
    assert answer(pickle.loads(data)) == expected


def test_repr() -> None:
    assert repr(MNN.load(DIGITS, threads=2)) == (
        f"<MNN.Model '{DIGITS}' (image: f32 batch x 1 x 8 x 8) -> (probability: f32 batch x 10); "
        "normal precision, 2 threads>"
    )
    model = MNN.load(Path(DIGITS).read_bytes())
    assert "<MNN.Model " in repr(model)
    assert isinstance(model, MNN.Model)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"source": 3}, r"a model is a path or the bytes of a file, not int \(3\)"),
        ({"source": None}, "not NoneType"),
        ({"threads": "2"}, "threads is a whole number such as 2, not '2'"),
        ({"threads": 1.5}, "not 1.5"),
        ({"threads": None}, "not None"),
        ({"threads": 0}, "between 1 and 256"),
        ({"precision": "fast"}, "one of high, normal, low, not 'fast'"),
        ({"precision": 1}, "one of high, normal, low, not 1"),
        ({"precision": ["high"]}, "one of high, normal, low"),
    ],
)
def test_arguments_of_the_wrong_kind(arguments, words) -> None:
    with pytest.raises(MNN.MNNError, match=words):
        MNN.load(**{"source": DIGITS, **arguments})


def test_numpy_numbers_count_threads() -> None:
    assert MNN.load(DIGITS, threads=np.int64(2)).config.threads == 2


def test_an_entry_of_a_model_that_has_several(tmp_path) -> None:
    path = tmp_path / "two.tflite"
    path.write_bytes(two_entries())
    x = np.array([0.5, 1.0, -2.0], np.float32)
    for _ in range(2):  # the second time from stored programs
        for name, wanted in (("decode", np.negative), ("encode", np.exp)):
            for source in (path, path.read_bytes()):
                model = MNN.load(source, signature=name)
                for one in (model, pickle.loads(pickle.dumps(model))):
                    np.testing.assert_allclose(one(x), wanted(x), rtol=1e-6)
    with pytest.raises(MNN.MNNError, match="it has encode, decode"):
        MNN.load(path, signature="train")
    with pytest.raises(MNN.MNNError, match="signature is for files of tflite, tensorflow"):
        MNN.load(DIGITS, signature="serve")


def test_passes_run_on_bytes_as_on_files() -> None:
    from_file, from_bytes = (MNN.load(s, cache=False).graph for s in (DIGITS, Path(DIGITS).read_bytes()))
    assert [n.op for n in from_bytes.nodes] == [n.op for n in from_file.nodes]
    assert len(from_bytes.nodes) < len(load_graph(DIGITS).nodes)
