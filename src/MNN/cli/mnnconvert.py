"""``mnnconvert``: the spelling of the official converter, for scripts that use it."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from MNN.cli import info as info_command
from MNN.cli.convert import check_target, show
from MNN.cli.converted_test import FolderTest
from MNN.cli.dump import write_json
from MNN.cli.main import OFFICIAL, ended, guarded, version_shown
from MNN.cli.official_options import taken_apart
from MNN.cli.options import Prototxt
from MNN.converter import Options
from MNN.errors import MNNError
from MNN.frontends import Hints
from MNN.weight_quantization import WeightQuantization, read_layers

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
FRAMEWORKS = {
    "ONNX": "onnx", "TF": "tensorflow", "TFLITE": "tflite", "CAFFE": "caffe", "TORCH": "torch", "MNN": "mnn",
    "JSON": "json", "KERAS": "keras", "NCNN": "ncnn",
}  # fmt: skip
"""What the official tool calls kinds of files, and what they are called here; it has not the last two."""
_TRADING = ("attention", "matmul-to-convolution")
"""Passes of level 2, which --transformerFuse and --convertMatmulToConv ask for one by one."""


@app.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def command(
    context: typer.Context,
    model: Annotated[Path | None, typer.Option("--modelFile", help="The model to convert.")] = None,
    target: Annotated[Path | None, typer.Option("--MNNModel", help="The file to write.")] = None,
    framework: Annotated[
        str, typer.Option("-f", "--framework", help="ONNX, TF, TFLITE, CAFFE, TORCH, MNN, JSON, KERAS, NCNN.")
    ] = "ONNX",
    biz_code: Annotated[str, typer.Option("--bizCode", help="A label stored in the file.")] = "",
    fp16: Annotated[bool, typer.Option("--fp16/--no-fp16", help="Store weights in half precision.")] = False,
    bits: Annotated[int, typer.Option("--weightQuantBits", help="Store weights in 2 to 8 bits; 0: as they are.")] = 0,
    asymmetric: Annotated[
        bool | None,
        typer.Option(
            "--weightQuantAsymmetric/--no-weightQuantAsymmetric",
            help="Between smallest and largest weight; on by default.",
        ),
    ] = None,
    block: Annotated[int, typer.Option("--weightQuantBlock", help="Channels with a scale of their own; -1: all.")] = -1,
    half_quadratic: Annotated[
        bool, typer.Option("--hqq/--no-hqq", help="Search where integers begin (half-quadratic quantisation).")
    ] = False,
    layers: Annotated[
        Path | None,
        typer.Option("--compressionParamsFile", help="Bits of each layer as JSON; written where it is not there."),
    ] = None,
    external: Annotated[
        bool, typer.Option("--saveExternalData/--no-saveExternalData", help="Keep weights in MNNMODEL.weight.")
    ] = False,
    level: Annotated[int, typer.Option("--optimizeLevel", min=0, max=2, help="0 none, 1 exact, 2 faster, larger.")] = 1,
    prefer: Annotated[int, typer.Option("--optimizePrefer", min=0, max=2, help="1 smaller, 2 faster (level 2).")] = 0,
    fuse: Annotated[
        bool, typer.Option("--transformerFuse/--no-transformerFuse", help="Attention as one operator.")
    ] = False,
    to_convolution: Annotated[
        int, typer.Option("--convertMatmulToConv", min=0, max=1, help="Products by weights as convolutions.")
    ] = 0,
    batch: Annotated[int | None, typer.Option("--batch", help="Fix an open batch size.")] = None,
    static: Annotated[
        bool, typer.Option("--saveStaticModel/--no-saveStaticModel", help="No size may stay open.")
    ] = False,
    sizes: Annotated[
        Path | None, typer.Option("--inputConfigFile", help="Shapes of inputs: input_names = a,b; input_dims = 1x3,1.")
    ] = None,
    auth_code: Annotated[str, typer.Option("--authCode", help="A text stored in the file for the application.")] = "",
    keep_format: Annotated[
        bool, typer.Option("--keepInputFormat/--no-keepInputFormat", help="Inputs keep their layout.")
    ] = True,
    prototxt: Prototxt = None,
    tests: Annotated[Path | None, typer.Option("--testdir", help="Compare with input.json and its results.")] = None,
    threshold: Annotated[float, typer.Option("--thredhold", min=0, help="What --testdir allows.")] = 0.01,
    json_file: Annotated[Path | None, typer.Option("--JsonFile", help="With -f MNN: write the file as JSON.")] = None,
    info: Annotated[bool, typer.Option("--info/--no-info", help="With -f MNN: what the file holds.")] = False,
    operators: Annotated[bool, typer.Option("--OP/--no-OP", help="The operators of -f that are supported.")] = False,
    passes: Annotated[bool, typer.Option("--dumpPass/--no-dumpPass", help="What each pass changed.")] = False,
    version: Annotated[
        bool, typer.Option("-v", "--version", callback=version_shown, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Convert a model to .mnn (options as in the official converter)."""
    del version
    for note in taken_apart(context.args):
        print(f"note: {note}")
    kind = framework.upper()
    if kind not in FRAMEWORKS:
        raise MNNError(f"-f {framework}: models of that kind cannot be read yet; known are {', '.join(FRAMEWORKS)}")
    if operators:
        print("\n".join(_known(kind)))
        return
    if model is None:
        raise MNNError("which model? give --modelFile FILE")
    if target is not None:
        check_target(model, target)
    _check_apart({"--MNNModel": target, "--JsonFile": json_file, "--compressionParamsFile": layers})
    if json_file is not None or info:
        if kind != "MNN":
            raise MNNError(f"--JsonFile and --info show .mnn files (-f MNN), not -f {framework}")
        if info:
            info_command.command(model)
        if json_file is not None:
            write_json(model, json_file)
            print(f"{model} -> {json_file}")
    if target is not None:
        weights = _weights(bits, block, asymmetric, half_quadratic, layers)
        wanted = {"attention": fuse, "matmul-to-convolution": bool(to_convolution)}
        level = 2 if prefer == 2 or any(wanted.values()) else min(level, 1) if prefer == 1 else level
        asked = level == 2 and prefer != 2 and any(wanted.values())
        left_out = tuple(name for name in _TRADING if asked and not wanted[name])
        kept = Options(
            level, left_out, fp16, external, batch, biz_code, keep_format, FRAMEWORKS[kind], Hints(prototxt=prototxt),
            _shapes(sizes) if sizes is not None else {}, weights, static,
            read_layers(layers, half_quadratic) if layers is not None and layers.exists() else {},
            None if layers is None or layers.exists() else layers, auth_code,
        )  # fmt: skip
        report = show(model, target, kept, None if tests is None else FolderTest(tests, threshold))
        if passes:
            print("\n".join(f"  {name}: {count}" for name, count in report.changes.items()))
    elif json_file is None and not info:
        raise MNNError("nothing to write: give --MNNModel FILE")


def _weights(
    bits: int, block: int, asymmetric: bool | None, half_quadratic: bool, layers: Path | None
) -> WeightQuantization | None:
    """How weights are quantised that no file speaks of."""
    if bits:
        return WeightQuantization(bits, 0 if block == -1 else block, asymmetric is not False, half_quadratic)
    described = layers is not None and layers.exists()
    if asymmetric is not None or block not in (-1, 0) or (half_quadratic and not described):
        raise MNNError("--weightQuantAsymmetric, --weightQuantBlock and --hqq are for --weightQuantBits; give that")
    if layers is not None and not described:
        raise MNNError(f"there is no {layers} yet, and no --weightQuantBits to write it by; give that")
    return None


def _check_apart(files: Mapping[str, Path | None]) -> None:
    """Raises where two options name one file: the later one would be all that is left."""
    known: dict[Path, str] = {}
    for option, path in files.items():
        if path is not None and known.setdefault(path.resolve(), option) != option:
            raise MNNError(f"{known[path.resolve()]} and {option} would both be {path}; give each a file of its own")


def _known(kind: str) -> list[str]:
    """The operators that a front end has handlers for."""
    from MNN.frontends.listing import operators_of

    return operators_of(FRAMEWORKS[kind])


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """``input_names = a,b`` and ``input_dims = 1x3x224x224,1x10``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise MNNError(f"{path} is no text") from error
    found = {k.strip(): v.strip() for k, _, v in (line.partition("=") for line in lines) if v}
    names, dims = (found.get(k, "").replace(" ", "").split(",") for k in ("input_names", "input_dims"))
    fits = len(set(names)) == len(names) == len(dims) and all(names)
    if not fits or not all(re.fullmatch(r"[0-9]{1,18}(x[0-9]{1,18})*", d) for d in dims):
        raise MNNError(
            f"{path} should have a line 'input_names = a,b' and one 'input_dims = 1x3x224x224,1x10', as many shapes as "
            "names, each name once"
        )
    return {name: tuple(int(n) for n in d.split("x")) for name, d in zip(names, dims, strict=True)}


def main() -> None:
    """The ``mnnconvert`` command."""
    signal.signal(signal.SIGTERM, ended)
    guarded(app, OFFICIAL)


if __name__ == "__main__":
    main()
