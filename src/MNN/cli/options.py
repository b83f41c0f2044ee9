"""Options that several commands have, spelled and explained the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from MNN.errors import MNNError
from MNN.frontends import Hints

INPUT_HELP = "A .npy or .npz file or a picture; a model with one input needs no NAME."

Inputs = Annotated[list[str] | None, typer.Option("--input", "-i", metavar="NAME=FILE", help=INPUT_HELP)]
"""Files for the inputs, others being left as they are."""
NoisyInputs = Annotated[
    list[str] | None,
    typer.Option("--input", "-i", metavar="NAME=FILE", help=f"{INPUT_HELP} Inputs without one get seeded noise."),
]
Shapes = Annotated[list[str] | None, typer.Option("--shape", metavar="NAME=1x3x224x224", help="Sizes left open.")]
Mean = Annotated[str | None, typer.Option(help="Subtracted from pictures, per channel; 0 by default.")]
Norm = Annotated[str | None, typer.Option(help="Then multiplied with, per channel; 1/255 by default.")]
Disabled = Annotated[list[str] | None, typer.Option("--disable-pass", metavar="NAME", help="Leave out a pass.")]
Prototxt = Annotated[
    Path | None,
    typer.Option("--prototxt", help="The description of a caffemodel; by default the one beside it, or inside."),
]
InputShapes = Annotated[
    list[str] | None,
    typer.Option(
        "--input-shape",
        metavar="NAME=1x3x224x224",
        help="What TorchScript, Caffe and ncnn files do not tell of an input: a shape, i64:1x7 for another type.",
    ),
]
Signature = Annotated[
    str | None,
    typer.Option("--signature", metavar="NAME", help="The entry to take of a SavedModel or .tflite with several."),
]
Threads = Annotated[int, typer.Option(help="Threads to use.")]


def hints(input_shapes: list[str] | None = None, prototxt: Path | None = None, signature: str | None = None) -> Hints:
    """What these options say of a file. Raises :class:`MNNError` for a shape without a name."""
    shapes = {}
    for text in input_shapes or []:
        name, _, shape = text.partition("=")
        if not shape:
            raise MNNError(f"--input-shape takes NAME=1x3x224x224, not '{text}'")
        shapes[name] = shape
    return Hints(shapes, prototxt, signature)
