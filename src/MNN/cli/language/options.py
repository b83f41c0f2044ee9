"""Options that the commands on language models share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from MNN.cli.display.output import progress_console
from MNN.errors import MNNError

if TYPE_CHECKING:
    from MNN.llm.language_model import LanguageModel

Source = Annotated[Path, typer.Argument(help="A .gguf file, or a folder: Hugging Face's or the official engine's.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to use; all processors by default.")]
MaxLength = Annotated[int | None, typer.Option(min=1, help="Tokens that a text may have, answers included.")]
Bits = Annotated[int | None, typer.Option(help="Quantise weights that the file has as floats: 4 or 8 bits.")]
ActivationBits = Annotated[
    int | None,
    typer.Option(help="8 rounds what low-bit weights are multiplied by, 32 does not; 8 at precision low."),
]
Precision = Annotated[str, typer.Option(help="high, normal or low.")]
KvBits = Annotated[
    str, typer.Option(help="Bits of the keys and values that are kept: 32, 16, 8 or 4; two numbers (8,4) for each.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not keep anything on disk.")]


def opened(
    model: Path, threads: int | None, precision: str, max_length: int | None, bits: int | None, no_cache: bool,
    activation_bits: int | None, kv_bits: str = "16",
) -> LanguageModel:  # fmt: skip
    """The model, while a spinner turns."""
    from MNN.llm.language_model import load  # other commands start without it

    with progress_console().status(f"opening {model.name}"):
        return load(model, threads, precision, max_length, bits, not no_cache, activation_bits, bits_of_cache(kv_bits))


def bits_of_cache(told: str) -> int | tuple[int, ...]:
    """The numbers in ``--kv-bits``."""
    try:
        found = tuple(int(part) for part in told.split(","))
    except ValueError as error:
        raise MNNError(
            f"--kv-bits {told}: one number is expected (8), or one for keys and one for values (8,4)"
        ) from error
    return found[0] if len(found) == 1 else found


__all__ = [
    "ActivationBits",
    "Bits",
    "KvBits",
    "MaxLength",
    "NoCache",
    "Precision",
    "Source",
    "Threads",
    "bits_of_cache",
    "opened",
]
