"""What drafts gain on an answer: the same one is written with and without, in turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from MNN.cli.language.options import drafter, opened
from MNN.llm.language_model import LanguageModel
from MNN.llm.speculation import Drafter


@dataclass(frozen=True)
class Drafted:
    """``plain``, ``drafting``: tokens a second behind the first one, without drafts and with them. ``same``: whether
    both answers have the same tokens; those that are as probable as each other may change places."""

    prompt: int
    written: int
    drafted: int
    taken: int
    plain: float
    drafting: float
    same: bool


def measure_drafts(
    model: Path, draft: str, question: str, threads: int, generate: int, runs: int, precision: str, bits: int | None,
    no_cache: bool, activation_bits: int | None, told: Callable[..., None],
) -> Drafted:  # fmt: skip
    """Times greedy answers to a question. The fastest of ``runs`` counts; one before them makes plans."""
    llm = opened(model, threads, precision, None, bits, no_cache, activation_bits, draft=draft)
    proposing = drafter(draft, llm, model, threads, precision)
    best: list[Drafted] = []
    for run in range(runs + 1):
        told(f"{threads} threads: {'plans' if run == 0 else 'timing drafts'}", run, runs + 1)
        found = _once(llm, question, generate, proposing)
        if run:
            best.append(found)
    last = best[-1]
    plain, drafting = max(one.plain for one in best), max(one.drafting for one in best)
    return Drafted(last.prompt, last.written, last.drafted, last.taken, plain, drafting, last.same)


def _once(llm: LanguageModel, question: str, generate: int, proposing: Drafter) -> Drafted:
    _forget(llm, proposing)
    plain = llm.stream(question, generate)
    plain.read()
    _forget(llm, proposing)
    with_drafts = llm.stream(question, generate, draft=proposing)
    with_drafts.read()
    cost = with_drafts.cost
    return Drafted(
        cost.prompt, cost.written, cost.drafted, cost.kept, plain.cost.write_speed, cost.write_speed,
        plain.tokens == with_drafts.tokens,
    )  # fmt: skip


def _forget(llm: LanguageModel, proposing: Drafter) -> None:
    """Has both begin anew: an answer is written as often, and each time the question is read by what drafts too."""
    llm.reset()
    end = getattr(proposing, "close", None)
    if end is not None:
        end()


__all__ = ["Drafted", "measure_drafts"]
