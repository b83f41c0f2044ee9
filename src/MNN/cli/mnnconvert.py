"""``mnnconvert``: the spelling of the official converter, for scripts that use it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from MNN.cli.convert import show
from MNN.cli.main import guarded
from MNN.converter import Options
from MNN.errors import MNNError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
FRAMEWORKS = ("ONNX", "MNN", "JSON")


@app.command()
def command(
    model: Annotated[Path, typer.Option("--modelFile", help="The model to convert.")],
    target: Annotated[Path, typer.Option("--MNNModel", help="The file to write.")],
    framework: Annotated[str, typer.Option("-f", "--framework", help="ONNX, MNN or JSON.")] = "ONNX",
    biz_code: Annotated[str, typer.Option("--bizCode", help="A label stored in the file.")] = "",
    fp16: Annotated[bool, typer.Option("--fp16", help="Store weights in half precision.")] = False,
    external: Annotated[bool, typer.Option("--saveExternalData", help="Keep weights in TARGET.weight.")] = False,
    level: Annotated[int, typer.Option("--optimizeLevel", min=0, max=2)] = 1,
    batch: Annotated[int | None, typer.Option("--batch", help="Fix an open batch size.")] = None,
    keep_format: Annotated[bool, typer.Option("--keepInputFormat/--no-keepInputFormat")] = True,
) -> None:
    """Convert a model to .mnn (options as in the official converter)."""
    kind = framework.upper()
    if kind not in FRAMEWORKS:
        raise MNNError(f"-f {framework}: models of that kind cannot be read yet; known are {', '.join(FRAMEWORKS)}")
    show(model, target, Options(level, (), fp16, external, batch, biz_code, keep_format))


def main() -> None:
    """The ``mnnconvert`` command."""
    guarded(app)


if __name__ == "__main__":
    main()
