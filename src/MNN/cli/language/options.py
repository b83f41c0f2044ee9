"""Options that the commands on language models share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from MNN.cli.display.output import progress_console

if TYPE_CHECKING:
    from MNN.llm.language_model import LanguageModel

Source = Annotated[Path, typer.Argument(help="A .gguf file, or a folder: Hugging Face's or the official engine's.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to use; all processors by default.")]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Tokens that a text may have, answers included.")]
Bits = Annotated[int | None, typer.Option(help="Quantise weights that the file has as floats: 4 or 8 bits.")]
ActivationBits = Annotated[
    int | None,
    typer.Option(help="8 rounds what low-bit weights are multiplied by, 32 does not; 8 below precision high."),
]
Precision = Annotated[str, typer.Option(help="high, normal or low.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not keep anything on disk.")]


def opened(
    model: Path, threads: int | None, precision: str, max_length: int | None, bits: int | None, no_cache: bool,
    activation_bits: int | None,
) -> LanguageModel:  # fmt: skip
    """The model, while a spinner turns."""
    from MNN.llm.language_model import load  # other commands start without it

    with progress_console().status(f"opening {model.name}"):
        return load(model, threads, precision, max_length, bits, not no_cache, activation_bits)


__all__ = ["ActivationBits", "Bits", "MaxLength", "NoCache", "Precision", "Source", "Threads", "opened"]
