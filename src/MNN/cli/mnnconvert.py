"""``mnnconvert``: the spelling of the official converter, for scripts that use it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from MNN.cli.convert import check_target, show
from MNN.cli.dump import write_json
from MNN.cli.main import OFFICIAL, ended, guarded, version_shown
from MNN.cli.options import Prototxt
from MNN.converter import Options
from MNN.errors import MNNError
from MNN.frontends import Hints

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
FRAMEWORKS = {
    "ONNX": "onnx", "TF": "tensorflow", "TFLITE": "tflite", "CAFFE": "caffe", "MNN": "mnn", "JSON": "json",
}  # fmt: skip
"""What the official tool calls kinds of files, and what they are called here."""


@app.command()
def command(
    model: Annotated[Path, typer.Option("--modelFile", help="The model to convert.")],
    target: Annotated[Path | None, typer.Option("--MNNModel", help="The file to write.")] = None,
    framework: Annotated[str, typer.Option("-f", "--framework", help="ONNX, TF, TFLITE, CAFFE, MNN, JSON.")] = "ONNX",
    biz_code: Annotated[str, typer.Option("--bizCode", help="A label stored in the file.")] = "",
    fp16: Annotated[bool, typer.Option("--fp16/--no-fp16", help="Store weights in half precision.")] = False,
    external: Annotated[
        bool, typer.Option("--saveExternalData/--no-saveExternalData", help="Keep weights in MNNMODEL.weight.")
    ] = False,
    level: Annotated[int, typer.Option("--optimizeLevel", min=0, max=2, help="0 none, 1 exact, 2 faster, larger.")] = 1,
    batch: Annotated[int | None, typer.Option("--batch", help="Fix an open batch size.")] = None,
    keep_format: Annotated[
        bool, typer.Option("--keepInputFormat/--no-keepInputFormat", help="Inputs keep their layout.")
    ] = True,
    prototxt: Prototxt = None,
    json_file: Annotated[Path | None, typer.Option("--JsonFile", help="With -f MNN: write the file as JSON.")] = None,
    version: Annotated[
        bool, typer.Option("-v", "--version", callback=version_shown, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Convert a model to .mnn (options as in the official converter)."""
    del version
    kind = framework.upper()
    if kind not in FRAMEWORKS:
        raise MNNError(f"-f {framework}: models of that kind cannot be read yet; known are {', '.join(FRAMEWORKS)}")
    if json_file is not None:
        if kind != "MNN":
            raise MNNError(f"--JsonFile shows .mnn files (-f MNN), not -f {framework}")
        write_json(model, json_file)
        print(f"{model} -> {json_file}")
    if target is not None:
        check_target(model, target)
        kept = Options(
            level, (), fp16, external, batch, biz_code, keep_format, FRAMEWORKS[kind], Hints(prototxt=prototxt)
        )
        show(model, target, kept)
    elif json_file is None:
        raise MNNError("nothing to write: give --MNNModel FILE")


def main() -> None:
    """The ``mnnconvert`` command."""
    signal.signal(signal.SIGTERM, ended)
    guarded(app, OFFICIAL)


if __name__ == "__main__":
    main()
