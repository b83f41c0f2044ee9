"""``mnn chat``: a conversation with a language model."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from MNN.cli.display.output import console, progress_console
from MNN.cli.language.options import (
    ActivationBits,
    Bits,
    CacheMemory,
    Draft,
    KvBits,
    Literal,
    Lora,
    MaxLength,
    NoCache,
    Precision,
    Source,
    Threads,
    drafter,
    opened,
)
from MNN.errors import MNNError

if TYPE_CHECKING:
    from MNN.cli.language.conversation import Conversation
    from MNN.llm.answer import Cost

NAME = "chat"
SHORT = "Talk with a language model."
"""What the list of commands says."""


def command(
    model: Source,
    prompt: Annotated[str, typer.Option("--prompt", "-p", help="Answer this and end.")] = "",
    system: Annotated[str, typer.Option(help="What the model is told first.")] = "",
    file: Annotated[
        list[Path] | None, typer.Option("--file", help="A text file to talk about; may be repeated.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="0 takes the most probable token.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Only the k most probable tokens; 0: all.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Only the most probable tokens up to this probability.")] = None,
    min_p: Annotated[float | None, typer.Option(help="Only tokens with this share of the best one's.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Above 1 against repetitions.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same random choices every time.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens of an answer.")] = None,
    threads: Threads = None,
    precision: Precision = "normal",
    max_length: MaxLength = None,
    bits: Bits = None,
    kv_bits: KvBits = "16",
    cache_memory: CacheMemory = None,
    activation_bits: ActivationBits = None,
    draft: Draft = "",
    beams: Annotated[
        int, typer.Option(min=1, max=64, help="The most probable answer that so many beams find; nothing is drawn.")
    ] = 1,
    cache_file: Annotated[
        Path | None,
        typer.Option(help="Keys and values of what was read: taken from this file if it is there, written at the end."),
    ] = None,
    lora: Lora = None,
    literal: Literal = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No line on speed.")] = False,
    no_cache: NoCache = False,
) -> None:
    """Talk with a language model. Lines that begin with / are commands: /help lists them. Ctrl-C ends an answer."""
    from MNN.cli.language.choosing import choosing  # other commands start without these
    from MNN.cli.language.conversation import Conversation
    from MNN.llm.files.gguf.reader import parsed_once

    if lora and cache_file is not None:
        raise MNNError(
            "--cache-file keeps what the model read by itself, not what it read with an adapter; leave out --lora or "
            "--cache-file"
        )
    given = {
        "temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed,
        "repetition_penalty": repetition_penalty,
    }  # fmt: skip
    with parsed_once():
        sampling = choosing(model, given)
        llm = opened(
            model,
            threads,
            precision,
            max_length,
            bits,
            no_cache,
            activation_bits,
            kv_bits,
            None,
            lora,
            cache_memory,
            draft,
            literal,
        )
    if llm.tokenizer.chat_template is None:
        told = "[dim]The model has no chat template: it goes on with what you write.[/]"
        progress_console().print(told, highlight=False, soft_wrap=True)
    talk = Conversation(llm, sampling, system, max_tokens, drafter(draft, llm, model, threads, precision), beams)
    for path in file or []:
        talk.add_file(path)
    say = _speed if not quiet else _nothing
    if cache_file is not None:
        llm.check_cache(cache_file)  # before the talk, not behind it
        if cache_file.exists():
            llm.load_cache(cache_file)
    if prompt:
        _answer(talk, prompt, say)
    else:
        _talk(talk, say)
    if cache_file is not None and llm.conversation.tokens:
        llm.save_cache(cache_file)


def _talk(talk: Conversation, say: Callable[[Cost], None]) -> None:
    """Question after question, to the end of the input."""
    asked = sys.stdin.isatty()
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors == "strict":
        sys.stdin.reconfigure(errors="replace")  # bytes that are no text end no conversation
    if asked:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - input() then knows the lines before
        console().print("[dim]/help lists commands; Ctrl-D or /exit ends.[/]")
    while True:
        try:
            line = input("> " if asked else "").strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            print()
            continue
        if not line:
            continue
        before = list(talk.messages)
        try:
            if line.startswith("/"):
                reply = talk.obey(line)
                if reply is None:
                    return
                if reply.question is not None:
                    _answer(talk, reply.question, say)
                else:
                    console().print(reply.text, highlight=False, markup=False)
            else:
                _answer(talk, line, say)
        except KeyboardInterrupt:  # while a question is read, and of beams, of which none is the answer yet
            if not asked:
                raise
            talk.messages = before
            print()
        except MNNError as error:
            if not asked:
                raise
            talk.messages = before  # /again takes an answer out before there is another one
            console().print(f"[bold red]error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)


def _answer(talk: Conversation, question: str, say: Callable[[Cost], None]) -> None:
    """Prints the answer as it is written."""
    if talk.beams > 1:
        with progress_console().status(f"writing {talk.beams} beams"):
            best = talk.best(question)
        print(best.text, flush=True)
        talk.keep(question, best)
        return
    from MNN.llm.sampling.stopping import round_of  # other commands start without it

    answer, again = talk.ask(question), 0
    try:
        for piece in answer:
            print(piece, end="", flush=True)
            if again := round_of(answer.tokens):
                answer.cancel()
    except KeyboardInterrupt:
        answer.cancel()
    print(flush=True)
    if again:
        told = f"[dim]stopped: the last {again} tokens again and again (see /again and /set repetition_penalty 1.1)[/]"
        progress_console().print(told, highlight=False, soft_wrap=True)
    talk.keep(question, answer)
    say(answer.cost)


def _speed(cost: Cost) -> None:
    reused = f" ({cost.reused} known)" if cost.reused else ""
    drafted = f", {cost.kept} of {cost.drafted} drafted ones taken" if cost.drafted else ""
    progress_console().print(
        f"[dim]{cost.prompt} tokens read{reused} at {cost.read_speed:.0f}/s, {cost.written} written at "
        f"{cost.write_speed:.1f}/s{drafted}[/]",
        highlight=False,
    )


def _nothing(cost: Cost) -> None:
    """Says nothing."""
