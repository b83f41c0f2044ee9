"""The drafts of answers that are written together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from MNN.errors import MNNError
from MNN.llm.engine.decoder import Text
from MNN.llm.sampling import SamplingOptions
from MNN.llm.speculation.draft import MOST, Draft, Drafter, Drafting
from MNN.llm.speculation.model import Asked, ModelDrafter, propose_together

_LOG = logging.getLogger(__name__)  # those who run the server see what its users need not know

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


def drafting_for(make: Callable[[], Drafter], options: SamplingOptions) -> Drafting:
    """The drafts of an answer beside others, none where a drafter for it cannot be made. How long its drafts are
    depends on those; so that a seed says all of it nonetheless, drafts are greedy where there is one: then what is
    checked is drawn by the seed alone."""
    try:
        drafter = make()
    except Exception:  # noqa: BLE001 - answers do not depend on drafts
        _LOG.exception("an answer goes on without drafts: there is no drafter for it")
        drafter = _Silent()
    return Drafting(drafter, options if options.seed is None else replace(options, temperature=0.0))


class _Silent:
    """Knows nothing."""

    def propose(self, tokens: Sequence[int], count: int, options: SamplingOptions) -> Draft:
        return Draft()


def propose_all(asked: Sequence[tuple[Drafting, Sequence[int], int, Text]], words: int = 0) -> list[Draft]:
    """For each of several texts how it may go on: its drafts, its tokens, by how many tokens at most, and what the
    model has read. ``words``: as :meth:`~MNN.llm.speculation.draft.Drafting.ask` has it. A drafter that fails proposes
    nothing from then on: answers do not depend on it."""
    drafts = [Draft() for _ in asked]
    together: list[tuple[int, Asked]] = []
    for place, (drafting, tokens, room, text) in enumerate(asked):
        count = drafting.wanted(room)
        if not count:
            continue
        if isinstance(drafting.drafter, ModelDrafter):
            together.append((place, (drafting.drafter, tokens, count, drafting.options)))
            continue
        try:
            drafts[place] = drafting.ask(tokens, count, text, words)
        except Exception:  # noqa: BLE001 - answers do not depend on drafts
            drafting.give_up()
            _LOG.exception("an answer goes on without drafts: its drafter failed")
    try:
        found = propose_together([one for _, one in together])
    except Exception:  # noqa: BLE001 - answers do not depend on drafts
        for place, _ in together:
            asked[place][0].give_up()
        _LOG.exception("%d answers go on without drafts: the model that drafts failed", len(together))
        return drafts
    for (place, _), draft in zip(together, found, strict=True):
        drafts[place] = draft
    return drafts


__all__ = ["ROWS", "drafting_for", "each_its_own", "propose_all"]
