"""``mnn llm``: fetching, converting, measuring and looking at language models."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from MNN.cli.display.output import console, write_json
from MNN.cli.display.progress import progress
from MNN.cli.display.tables import add_row, number, show, words
from MNN.cli.language.options import ActivationBits, Bits, Draft, KvBits, NoCache, Precision, Source, Threads, opened
from MNN.cli.models import parse_numbers
from MNN.errors import MNNError
from MNN.formatting import nbytes
from MNN.schema.files import replaceable

if TYPE_CHECKING:
    from MNN.cli.language.drafting import Drafted
    from MNN.cli.language.speed import Speed

NAME = "llm"
SHORT = "Fetch, convert, measure and look at language models."
"""What the list of commands says."""

app = typer.Typer(
    help="Fetch, convert, measure and look at language models; `mnn chat` talks with them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command("bench", short_help="Tokens a second.")
def bench(
    model: Source,
    threads: Annotated[str, typer.Option(help="One or more thread counts: 1,2.")] = "1",
    prompt: Annotated[int, typer.Option(min=1, help="Tokens of the prompt.")] = 512,
    generate: Annotated[int, typer.Option(min=2, help="Tokens that are written behind it.")] = 128,
    runs: Annotated[int, typer.Option(min=1, help="How often; the fastest run counts.")] = 3,
    precision: Precision = "normal",
    bits: Bits = None,
    activation_bits: ActivationBits = None,
    draft: Draft = "",
    text: Annotated[Path | None, typer.Option(help="With --draft: the question that is answered, a text file.")] = None,
    out: Annotated[Path | None, typer.Option("--json", help="Also write the results as JSON.")] = None,
    no_cache: NoCache = False,
) -> None:
    """Time reading a prompt and writing behind it, token by token, as seen from Python; with --draft also how fast an
    answer is written with drafts. A first run, in which plans are made, is not counted."""
    from MNN.cli.language.drafting import measure_drafts  # other commands start without these
    from MNN.cli.language.speed import measure, memory

    if bool(draft) != (text is not None):
        raise MNNError("--draft and --text belong together: what drafts gain depends on the text that is asked for")
    if out is not None:
        replaceable(out)  # before anything is measured
    question = _read(text) if text is not None else ""
    rows: list[Speed] = []
    drafts: list[Drafted] = []
    with progress() as told:
        for count in parse_numbers("--threads", threads):
            rows.append(
                measure(model, count, prompt, generate, runs, precision, bits, not no_cache, told, activation_bits)
            )
            if draft:
                drafts.append(
                    measure_drafts(
                        model, draft, question, count, generate, runs, precision, bits, no_cache, activation_bits, told
                    )
                )
    given = memory()
    rows = [replace(row, memory=given) for row in rows]
    columns = [
        number("threads"), number("opening\ns"), number("first token of\n32 tokens, ms"),
        number(f"reading {prompt}\ntokens/s"),
        number(f"writing {generate}\ntokens/s"), number("weights read a\ntoken, MB"), number("which is\nGB/s"),
        number("memory gives\nGB/s"), number("memory held\nMB"),
    ]  # fmt: skip
    for row in rows:
        add_row(
            columns, str(row.threads), f"{row.opening:.2f}", f"{row.first * 1e3:.0f}", f"{row.reading:.0f}",
            f"{row.writing:.1f}", f"{row.weights / 1e6:.0f}", f"{row.weights * row.writing / 1e9:.1f}",
            f"{row.memory / 1e9:.1f}", f"{row.held / 1e6:.0f}",
        )  # fmt: skip
    show(console(), columns)
    if 0 < rows[0].trained < prompt + generate:
        console().print(
            f"a text of {prompt + generate} tokens is longer than the {rows[0].trained} that the model was made for: "
            "these speeds hold, but what it writes there may make no sense",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
    if drafts:
        _show_drafts(rows, drafts)
    if out is not None:
        found = [asdict(row) for row in rows]
        for entry, gain in zip(found, drafts, strict=False):
            entry["drafts"] = asdict(gain)
        write_json(out, found)


def _show_drafts(rows: list[Speed], drafts: list[Drafted]) -> None:
    columns = [
        number("threads"), number("tokens\nread"), number("tokens\nwritten"), number("drafted"), number("taken"),
        number("without drafts\ntokens/s"), number("with drafts\ntokens/s"), number("ratio"),
    ]  # fmt: skip
    for row, gain in zip(rows, drafts, strict=True):
        add_row(
            columns, str(row.threads), str(gain.prompt), str(gain.written), str(gain.drafted), str(gain.taken),
            f"{gain.plain:.1f}", f"{gain.drafting:.1f}", f"{gain.drafting / gain.plain:.2f}" if gain.plain else "",
        )  # fmt: skip
    show(console(), columns)
    if not all(gain.same for gain in drafts):
        print("The answers differ where two tokens are as probable as each other.")


def _read(text: Path) -> str:
    try:
        return text.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise MNNError(f"{text} is no text in UTF-8") from None


@app.command("perplexity", short_help="How well a model foresees a text.")
def perplexity_of(
    model: Source,
    text: Annotated[Path, typer.Argument(help="A text file.")],
    context: Annotated[int | None, typer.Option(min=2, help="Tokens of a window.")] = None,
    threads: Threads = None,
    precision: Precision = "normal",
    bits: Bits = None,
    activation_bits: ActivationBits = None,
    kv_bits: KvBits = "16",
    no_cache: NoCache = False,
) -> None:
    """Show the perplexity of a text: e to the mean of -log p of its tokens."""
    from MNN.llm.quality import perplexity

    content = _read(text)
    llm = opened(model, threads, precision, None, bits, no_cache, activation_bits, kv_bits)
    with progress() as told:
        found = perplexity(
            llm.decoder, llm.tokenizer.encode(content), context, lambda done, total: told("tokens", done, total)
        )
    print(f"perplexity {found.value:.4f} +- {found.error:.4f} over {found.tokens} tokens")


@app.command("convert", short_help="Write a folder that the official engine runs.")
def convert_to(
    model: Source,
    out: Annotated[Path, typer.Argument(help="The folder to write, which must not be there.")],
    bits: Annotated[int, typer.Option(help="Bits of a weight: 8, 4, 3 or 2.")] = 4,
    block: Annotated[
        int | None,
        typer.Option(help="Weights of a row that share a scale; 0: whole rows. By default as the source, or 64."),
    ] = None,
    symmetric: Annotated[bool, typer.Option("--symmetric", help="No offsets beside the scales.")] = False,
    head_bits: Annotated[int, typer.Option(help="Bits of a weight of the last layer.")] = 8,
    lora: Annotated[Path | None, typer.Option(help="A PEFT adapter (LoRA) to merge into the weights.")] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(help="A text like those that the model will read: weights are rounded for it, which loses less."),
    ] = None,
) -> None:
    """Write a language model as a folder of the official engine, which runs here too: llm.mnn, its weights, a
    tokenizer, embeddings, config.json. Weights that the source has in this form stay as they are."""
    from MNN.llm.official.convert import convert  # other commands start without these
    from MNN.llm.official.form import Form

    text = None if calibrate is None else _read(calibrate)
    with progress() as told:
        folder = convert(model, out, Form(bits, block, symmetric, head_bits), told, lora, text)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {nbytes(size)}")


@app.command("download", short_help="Fetch a model from the Hugging Face Hub.")
def fetch(
    name: Annotated[str, typer.Argument(help="As HuggingFaceTB/SmolLM2-135M-Instruct.")],
    folder: Annotated[Path | None, typer.Argument(help="Where to; by default the last part of the name.")] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", help="Only files like this ('*Q4_K_M.gguf'); may be repeated.")
    ] = None,
    revision: Annotated[str | None, typer.Option(help="A branch, a tag or a commit.")] = None,
) -> None:
    """Fetch a model: what it needs here, or the files that are told. A download that was broken off goes on where it
    ended. Gated and private models need a token in HF_TOKEN. Needs the extra hub; no other command fetches anything."""
    from MNN.llm.hub import download  # other commands start without it

    with progress() as told:
        place = download(name, folder, file or (), revision, told)
    size = sum(held.stat().st_size for held in place.rglob("*") if held.is_file())
    print(f"{place}: {nbytes(size)}")


@app.command("info", short_help="What a model is made of.")
def info(model: Source) -> None:
    """Show a language model's family, sizes, weights and tokens."""
    from MNN.llm.engine.opening import Opened, open_model
    from MNN.llm.files import open_weights
    from MNN.llm.text import load_tokenizer

    found = open_model(model)
    kinds: dict[str, list[int]] = {}
    if isinstance(found, Opened):  # the official engine's files hold operators, not tensors
        for tensor in open_weights(found.path).values():
            kinds.setdefault(tensor.format, []).append(tensor.size)
    try:
        tokenizer = load_tokenizer(found.path)
        template = "with" if tokenizer.chat_template else "without"
        words_of = f"{tokenizer.vocab_size:,} tokens, {template} a chat template"
    except MNNError as error:
        words_of = f"no tokenizer: {error}"
    screen = console()
    screen.print(f"[bold]{escape(str(model))}[/]  family {found.config.get('model_type')}", highlight=False)
    for name, value in found.config.items():
        if isinstance(value, (int, float, str)) and name != "model_type":
            screen.print(f"  {name}: {value}", highlight=False, markup=False)
    if kinds:
        columns = [words("weights"), number("tensors"), number("numbers")]
        for kind, sizes in sorted(kinds.items(), key=lambda item: -sum(item[1])):
            add_row(columns, kind, f"{len(sizes):,}", f"{sum(sizes):,}")
        show(screen, columns)
    print(f"{words_of}; {nbytes(found.size)}")
