"""Every option of the official converter: it works, or one sentence says why not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.cli.mnnconvert import app
from MNN.cli.official_options import OPTIONS
from MNN.frontends.mnn import load
from MNN.ir.quant import QuantizedArray
from tests.cli.conftest import run_command

PAGE = Path(__file__).parents[2] / "docs" / "mnnconvert.md"
OFFICIAL = """OP MNNModel JsonFile alignDenormalizedValue allowCustomOp authCode batch benchmarkModel bizCode
compressionParamsFile convertMatmulToConv customOpLibs debug detectSparseSpeedUp dumpPass forTraining fp16 framework
groupConvNative hqq info inputConfigFile keepInputFormat modelFile optimizeLevel optimizePrefer prototxt rknn
saveExternalData saveStaticModel splitBlockQuant targetVersion testconfig testdir thredhold transformerFuse
transformerFuseC4 transformerFuseGateUpProj transformerFuseLnProj transformerFuseQkvProj useGeluApproximation
useOriginRNNImpl version weightQuantAsymmetric weightQuantBits weightQuantBlock weightQuantScaleBit""".split()
"""Those of MNNConvert 3."""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def official(*arguments: object):
    return run_command(*arguments, application=app)


def convert(model, *arguments: object):
    return official("-f", "ONNX", "--modelFile", model, "--MNNModel", "a.mnn", *arguments)


@pytest.mark.parametrize("name", OFFICIAL)
def test_each_is_taken_or_explained(name: str) -> None:
    shown = official("--help").out
    assert (f"--{name}" in OPTIONS) != (f"--{name} " in shown or f"--{name}\n" in shown or f"--{name}/" in shown)
    assert f"`--{name}`" in PAGE.read_text(encoding="utf-8")


def test_the_page_says_what_the_command_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for option in OPTIONS.values():
        what = "refused" if option.refused else "no effect"
        assert f"| `{option.name}` | {what} | {option.reason} |" in text


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_refused_options_write_nothing(digits, name: str) -> None:
    option = OPTIONS[name]
    result = convert(digits, name, *([] if option.switch else ["7"]))
    assert option.reason in (result.err if option.refused else result.out).replace("\n", " ")
    assert Path("a.mnn").exists() != option.refused
    for value in option.harmless:
        assert convert(digits, f"{name}={value}").code == 0


def test_unknown_options_are_refused(digits) -> None:
    assert "no option --fp17" in convert(digits, "--fp17").err
    assert "takes a value" in convert(digits, "--targetVersion").err
    assert not Path("a.mnn").exists()


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize(("bits", "limit"), [(8, 0.04), (4, 0.35)])
def test_weights_in_few_bits(digits, bits: int, limit: float, asymmetric: bool) -> None:
    """Smaller, and near the original."""
    assert convert(digits).code == 0
    whole, size = MNN.load("a.mnn"), Path("a.mnn").stat().st_size
    flags = [f"--weightQuantAsymmetric={int(asymmetric)}", "--weightQuantBlock", "16"]
    assert convert(digits, "--weightQuantBits", bits, *flags).code == 0
    quantised = MNN.load("a.mnn")
    assert Path("a.mnn").stat().st_size < size * (0.8 if bits == 8 else 0.7)
    assert any(isinstance(v.data, QuantizedArray) for v in load("a.mnn").values())
    x = {n: np.random.default_rng(0).random([2 if isinstance(d, str) else d for d in t.shape], np.float32)
         for n, t in whole.inputs.items()}  # fmt: skip
    for name, expected in whole.run(x).items():
        found = quantised.run(x)[name]
        assert np.abs(found - expected).max() <= limit * np.abs(expected).max()
    assert "give that" in convert(digits, "--weightQuantBlock", "16").err
    assert "9 bits" in convert(digits, "--weightQuantBits", "9").err


def test_fixed_shapes(digits) -> None:
    assert "sizes are left open" in convert(digits, "--saveStaticModel").err
    (name,) = load_names(digits)
    shape = [3 if isinstance(d, str) else d for d in load_shape(digits)]
    Path("sizes.txt").write_text(f"input_names = {name}\ninput_dims = {'x'.join(map(str, shape))}\n", encoding="utf-8")
    assert convert(digits, "--saveStaticModel", "--inputConfigFile", "sizes.txt").code == 0
    assert list(load("a.mnn").inputs[0].shape or ()) == shape
    Path("sizes.txt").write_text("input_names = a,b\ninput_dims = 1x2\n", encoding="utf-8")
    assert "input_dims" in convert(digits, "--inputConfigFile", "sizes.txt").err
    Path("sizes.txt").write_text("input_names = other\ninput_dims = 1x2\n", encoding="utf-8")
    assert "no input 'other'" in convert(digits, "--inputConfigFile", "sizes.txt").err


def load_names(model) -> list[str]:
    return list(MNN.load(model).inputs)


def load_shape(model) -> tuple[object, ...]:
    return tuple(next(iter(MNN.load(model).inputs.values())).shape)


def test_results_in_a_folder(digits) -> None:
    model = MNN.load(digits)
    (name,) = model.inputs
    shape = [2 if isinstance(d, str) else d for d in load_shape(digits)]
    x = np.random.default_rng(1).random(shape).astype(np.float32)
    Path("tests").mkdir()
    told = {"inputs": [{"name": name, "shape": shape}], "outputs": list(model.outputs)}
    Path("tests/input.json").write_text(json.dumps(told), encoding="utf-8")
    np.savetxt(f"tests/{name}.txt", x.reshape(-1))
    for output, numbers in model.run({name: x}).items():
        np.savetxt(f"tests/{output}.txt", numbers.reshape(-1))
    assert convert(digits, "--testdir", "tests", "--thredhold", "0.001").code == 0
    Path("a.mnn").unlink()
    np.savetxt(f"tests/{output}.txt", numbers.reshape(-1) + 1)
    result = convert(digits, "--testdir", "tests")
    assert f"'{output}' is off by" in result.err
    told["outputs"] = ["../a"]
    Path("tests/input.json").write_text(json.dumps(told), encoding="utf-8")
    assert convert(digits, "--testdir", "tests").code == 2
    Path("tests/input.json").write_text("[]", encoding="utf-8")
    assert "does not list inputs" in convert(digits, "--testdir", "tests").err
    assert not Path("a.mnn").exists()


def test_results_in_a_folder_also_of_json(digits, converted) -> None:
    """A JSON file that is written back as it stands is compared, too."""
    assert official("-f", "MNN", "--modelFile", converted, "--JsonFile", "a.json").code == 0
    model = MNN.load(digits)
    (name,), (output,) = model.inputs, model.outputs
    shape = [2 if isinstance(d, str) else d for d in load_shape(digits)]
    Path("input.json").write_text(
        json.dumps({"inputs": [{"name": name, "shape": shape, "value": 0.5}], "outputs": [output]}), encoding="utf-8"
    )
    expected = model.run({name: np.full(shape, 0.5, np.float32)})[output].reshape(-1)
    command = ["-f", "JSON", "--modelFile", "a.json", "--MNNModel", "a.mnn", "--testdir", "."]
    np.savetxt(f"{output}.txt", expected + 1)
    assert "is off by" in official(*command).err
    assert not Path("a.mnn").exists()
    np.savetxt(f"{output}.txt", expected)
    assert official(*command).code == 0
    assert Path("a.mnn").read_bytes() == converted.read_bytes()


def test_nothing_is_half_written(digits, converted) -> None:
    """Where one of several files cannot be written, or two would be one, none is."""
    Path("m.mnn").write_bytes(converted.read_bytes())
    for arguments, text in (
        (["ONNX", "--modelFile", digits, "--MNNModel", "a.mnn", "--compressionParamsFile", "no/c.json",
          "--weightQuantBits", "8"], "cannot write no"),
        (["ONNX", "--modelFile", digits, "--MNNModel", "a.mnn", "--compressionParamsFile", "./a.mnn",
          "--weightQuantBits", "8"], "would both be"),
        (["MNN", "--modelFile", "m.mnn", "--MNNModel", "a.mnn", "--JsonFile", "a.mnn"], "would both be"),
        (["MNN", "--modelFile", "m.mnn", "--JsonFile", "m.mnn"], "would be lost"),
        (["MNN", "--modelFile", "m.mnn", "--JsonFile", "a.json", "--MNNModel", "a.onnx"], "write to a.mnn"),
        (["ONNX", "--modelFile", digits, "--MNNModel", "no/a.mnn", "--testdir", "."], "no folder no; make it"),
    ):  # fmt: skip
        result = official("-f", *arguments)
        assert result.code == 2
        assert text in result.err
        assert [p.name for p in Path().iterdir()] == ["m.mnn"]
    assert Path("m.mnn").read_bytes() == converted.read_bytes()


@pytest.mark.parametrize(
    ("names", "sizes"),
    [("image", "2x1x8x8x"), ("image", "2x1xx8x8"), ("image", "2x1x8x\u00b2"), ("image,image", "2x1x8x8,1x1x8x8"),
     ("image", "9" * 5000)],
)  # fmt: skip
def test_shapes_that_are_none(digits, names: str, sizes: str) -> None:
    Path("sizes.txt").write_text(f"input_names = {names}\ninput_dims = {sizes}\n", encoding="utf-8")
    result = convert(digits, "--inputConfigFile", "sizes.txt")
    assert result.code == 2
    assert "each name once" in result.err


def test_values_that_are_none(digits) -> None:
    assert "'maybe' is no option" in convert(digits, "--fp16", "maybe").err
    assert "blocks of -7" in convert(digits, "--weightQuantBits", "4", "--weightQuantBlock", "-7").err
    assert "like a model of kind onnx, and is read as tflite" in official(
        "-f", "TFLITE", "--modelFile", digits, "--MNNModel", "a.mnn"
    ).err.replace("\n", " ")
    assert not Path("a.mnn").exists()


def test_small_is_preferred_to_fast(digits) -> None:
    """--optimizePrefer 1 is level 1, whatever --optimizeLevel says."""
    assert convert(digits).code == 0
    expected = Path("a.mnn").read_bytes()
    assert convert(digits, "--optimizeLevel", "2").code == 0
    assert Path("a.mnn").read_bytes() != expected
    assert convert(digits, "--optimizeLevel", "2", "--optimizePrefer", "1").code == 0
    assert Path("a.mnn").read_bytes() == expected


def test_weights_that_are_none_are_told_of() -> None:
    from tests.cli.models import chain

    assert "no weights were quantised" in convert(chain(Path("chain.onnx")), "--weightQuantBits", "8").out


def test_what_is_told(digits, converted) -> None:
    assert "Relu" in official("-f", "ONNX", "--OP").out.split()
    assert "CONV_2D" in official("-f", "TFLITE", "--OP").out.split()
    assert "Convolution" in official("-f", "NCNN", "--OP").out.split()
    shown = official("-f", "MNN", "--modelFile", converted, "--info")
    assert shown.code == 0
    assert "inputs" in shown.out
    assert "constant-folding: " in convert(digits, "--dumpPass").out
    assert "-f MNN" in official("-f", "ONNX", "--modelFile", digits, "--info").err


@pytest.mark.parametrize("flags", [["--optimizePrefer", "2"], ["--convertMatmulToConv", "1"], ["--transformerFuse"]])
def test_passes_that_trade(digits, flags: list[str]) -> None:
    told = convert(digits, *flags, "--dumpPass").out
    assert ("matmul-to-convolution:" in told) == (flags != ["--transformerFuse"])
    assert ("attention:" in told) == (flags[0] != "--convertMatmulToConv")
