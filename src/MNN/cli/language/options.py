"""Options that the commands on language models share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    typer.Option(help="Bits of what low-bit weights are multiplied by: 8, 10, 12 or 32. 10, but 8 at precision low."),
]
Precision = Annotated[str, typer.Option(help="high, normal or low.")]
KvBits = Annotated[
    str, typer.Option(help="Bits of the keys and values that are kept: 32, 16, 8 or 4; two numbers (8,4) for each.")
]
Draft = Annotated[
    str,
    typer.Option(
        help="What proposes words that are checked together: lookup (the text itself), a smaller model's path, "
        "layers:0-9,20-29 (the model with these layers), or heads:FOLDER (EAGLE, EAGLE-3 or Medusa, trained for it)."
    ),
]
Lora = Annotated[
    list[str] | None,
    typer.Option(help="A folder of a PEFT adapter (LoRA), or NAME=FOLDER; may be repeated."),
]
CacheMemory = Annotated[
    int | None,
    typer.Option(min=1, help="Megabytes of keys and values that stay in memory; others lie in a file meanwhile."),
]
Literal = Annotated[
    bool,
    typer.Option("--literal", help="Control tokens that are written in messages are text; only the template's count."),
]
_HEADS = "heads:"
NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not keep anything on disk.")]


def opened(
    model: Path, threads: int | None, precision: str, max_length: int | None, bits: int | None, no_cache: bool,
    activation_bits: int | None, kv_bits: str = "16", cache_tokens: int | None = None, lora: list[str] | None = None,
    cache_memory: int | None = None, draft: str = "", literal: bool = False,
) -> LanguageModel:  # fmt: skip
    """The model, with the heads that ``draft`` names, while a spinner turns."""
    from MNN.llm.language_model import load  # other commands start without it

    with progress_console().status(f"opening {model.name}"):
        return load(
            model, threads, precision, max_length, bits, not no_cache, activation_bits, bits_of_cache(kv_bits),
            cache_tokens, adapters_in(lora or []), None if cache_memory is None else cache_memory << 20,
            draft.removeprefix(_HEADS) if draft.startswith(_HEADS) else None, literal,
        )  # fmt: skip


def adapters_in(told: list[str]) -> dict[str, str]:
    """The folders of ``--lora`` by the names of the adapters. Raises :class:`MNNError` where a name is there twice."""
    found: dict[str, str] = {}
    for one in told:
        name, _, folder = one.rpartition("=") if not Path(one).exists() else (Path(one).resolve().name, "", one)
        if not name or name in found:
            what = f"the name {name!r} is there twice" if name else "there is no such folder"
            raise MNNError(f"--lora {one}: {what}; a folder, or NAME=FOLDER, is expected")
        found[name] = folder
    return found


def drafter(told: str, llm: LanguageModel, model: Path, threads: int | None, precision: str) -> Any:
    """What ``--draft`` means: None where nothing is told."""
    from MNN.llm.language_model import load
    from MNN.llm.speculation import drafter_of, skipping
    from MNN.runtime.config import processors

    if not told:
        return None
    if told.startswith(_HEADS):
        return drafter_of("heads", llm.tokenizer, llm.heads)
    if told.startswith("layers:"):
        count = processors() if threads is None else threads
        return skipping(model, _numbers(told), count, precision, max_length=llm.max_length)
    if told == "lookup" or not Path(told).exists():
        return drafter_of(told, llm.tokenizer)
    return drafter_of(load(told, threads, precision), llm.tokenizer)


def _numbers(told: str) -> list[int]:
    """The layers in ``layers:0-9,20-29``."""
    found: list[int] = []
    for part in told.removeprefix("layers:").split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal() or len(part) > 12:
            raise MNNError(f"--draft {told!r}: ranges of layers are expected, like layers:0-9,20-29")
        found += range(int(first), min(int(last or first), 100_000) + 1)
    return found


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
    "CacheMemory",
    "Draft",
    "KvBits",
    "Literal",
    "Lora",
    "MaxLength",
    "NoCache",
    "Precision",
    "Source",
    "Threads",
    "adapters_in",
    "bits_of_cache",
    "drafter",
    "opened",
]
