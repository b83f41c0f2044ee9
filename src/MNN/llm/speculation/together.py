"""The drafts of answers that are written together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from MNN.errors import MNNError
from MNN.llm.engine.decoder import Text
from MNN.llm.sampling import SamplingOptions
from MNN.llm.speculation.draft import MOST, Draft, Drafter, Drafting
from MNN.llm.speculation.model import ModelDrafter, propose_together

ROWS = MOST + 1
"""Tokens of a step, of all texts that are written, that drafts may fill it up to: a row more is nearly as much work as
a text more, so that drafts pay where few are written."""


def each_its_own(drafter: Drafter) -> Callable[[], Drafter]:
    """What makes a drafter for each of several texts. Raises :class:`MNNError` for one that cannot be had again."""
    make: Callable[[], Drafter] | None = getattr(drafter, "another", None)
    if make is None:
        raise MNNError(
            f"{drafter!r:.80} cannot draft for several answers at once: it needs a method another() that gives one for "
            "another text"
        )
    return make


def drafting_for(drafter: Drafter, options: SamplingOptions) -> Drafting:
    """The drafts of an answer beside others. How long its drafts are depends on those; so that a seed says all of it
    nonetheless, drafts are greedy where there is one: then what is checked is drawn by the seed alone."""
    return Drafting(drafter, options if options.seed is None else replace(options, temperature=0.0))


def propose_all(asked: Sequence[tuple[Drafting, Sequence[int], int, Text]]) -> list[Draft]:
    """For each of several texts how it may go on: its drafts, its tokens, by how many tokens at most, and what the
    model has read."""
    drafts = [Draft() for _ in asked]
    together = []
    for place, (drafting, tokens, room, text) in enumerate(asked):
        count = drafting.wanted(room)
        if not count:
            continue
        if isinstance(drafting.drafter, ModelDrafter):
            together.append((place, (drafting.drafter, tokens, count, drafting.options)))
        else:
            drafts[place] = drafting.ask(tokens, count, text)
    found = propose_together([one for _, one in together])
    for (place, _), draft in zip(together, found, strict=True):
        drafts[place] = draft
    return drafts


__all__ = ["ROWS", "drafting_for", "each_its_own", "propose_all"]
