"""Answers of other engines are found again, and computed anew when anything has changed that they depend on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests import kept, zoo
from tests.kept import Arrays

PROGRAM = "import sys\n{}\nwords = open(sys.argv[1]).read()\nopen(sys.argv[2], 'w').write(words * FACTOR)\n"


def model(path: Path, weights: np.ndarray) -> Path:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy")
    node = helper.make_node("Add", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNN_TEST_MODELS", str(tmp_path / "models"))


def test_numbers_depend_on_the_file_the_engine_and_what_goes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "WORTH", 0)
    calls = []

    def make() -> kept.Run:
        def run(feeds: Arrays) -> Arrays:
            calls.append(feeds)
            return {"file": feeds["x"] + 1, "a/b": np.array([True])}

        return run

    file, x = tmp_path / "m.onnx", np.ones(2, np.float32)
    for weights in (x, x * 2):
        model(file, weights)
        for tag in ("one", "other"):
            for value in (x, x.reshape(2, 1), x.astype(np.int32), -x):
                for again in (False, True):
                    before = len(calls)
                    found = kept.kept_run(file, tag, make)({"x": value})
                    np.testing.assert_array_equal(found["file"], value + 1, strict=True)
                    assert list(found) == ["file", "a/b"]
                    assert len(calls) - before == (not again), (tag, again)


def test_models_with_numbers_in_other_files_are_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx

    monkeypatch.setattr(kept, "WORTH", 0)
    file, apart = model(tmp_path / "m.onnx", np.ones(2, np.float32)), tmp_path / "apart.onnx"
    onnx.save(onnx.load(file), apart, save_as_external_data=True, location="data", size_threshold=0)
    x = {"x": np.ones(2, np.float32)}
    for path in (file, apart):
        for number in (1, 2):
            found = kept.kept_run(path, "", lambda number=number: lambda feeds: {"y": np.array(number)})(x)["y"]
            assert found == (number if path == apart else 1)


def test_files_depend_on_the_program_and_what_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, ran = tmp_path / "root", []
    monkeypatch.setattr(kept, "ROOT", root)
    real = kept.subprocess.run
    monkeypatch.setattr(kept.subprocess, "run", lambda *given, **named: ran.append(given) or real(*given, **named))
    (root / "tests").mkdir(parents=True)
    program, imported = root / "tests" / "program.py", root / "tests" / "numbers_of_it.py"
    program.write_text(PROGRAM.format("from tests.numbers_of_it import (\n    FACTOR\n)"))

    def answer(given: str, *more: str) -> str:
        folder = Path(kept.tempfile.mkdtemp(dir=tmp_path))
        (folder / "given").write_text(given)
        names = [str(folder / name) for name in ("given", "found")]
        kept.asked(Path(sys.executable), ["packages==1"], "tests.program", folder, *names, *more)
        return (folder / "found").read_text()

    for factor in (2, 3):
        # of another length each time: Python takes what it has compiled of a file that is as long and as old in seconds
        imported.write_text(f"FACTOR = {factor}\n" + factor * "#")
        for given in ("a", "b"):
            for more in ((), ("more",)):
                for again in (False, True):
                    before = len(ran)
                    assert answer(given, *more) == given * factor
                    assert len(ran) - before == (not again)
    imported.write_text("raise SystemExit('no such engine')")
    for _ in range(2):
        with pytest.raises(zoo.ZooError, match="no such engine"):
            answer("a")
