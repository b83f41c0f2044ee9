"""Measuring which algorithm is the fastest for every piece of work of a model, and remembering it for this processor.

Work is known by its signature (see :mod:`MNN.backends.base.candidates`). All candidates of all signatures are measured
in place: the whole model is compiled a few times, each time with another candidate for every signature, and these
programs take turns, so that caches and clock speed are as in real use. Choices that hold others (a chain of
convolutions or separate ones) are measured after those inside them are settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from MNN.backends.base.backend import TimedBound
from MNN.backends.base.candidates import Choice
from MNN.backends.base.program import Command
from MNN.cache.notes import write_note
from MNN.formatting import plural
from MNN.ir.graph import Graph, Value
from MNN.progress import ReportProgress, silent
from MNN.runtime.config import Config
from MNN.runtime.executor import Executor
from MNN.runtime.machines import Machines
from MNN.runtime.profile.noise import Times, faster, spread
from MNN.runtime.storage.tuned_choices import choices_note, generators, known_choices

WORTH = 0.98
"""Another candidate than the estimated one must take at most this part of its time to be chosen, and be faster by more
than the noise of both (see :mod:`MNN.runtime.profile.noise`)."""
_WARM_UP = 2


@dataclass(frozen=True)
class Tuned:
    """A signature, the least nanoseconds that each of its candidates took per use in this model, how much these times
    are worth (their spread over the rounds), and what was chosen."""

    signature: str
    times: Mapping[str, float]
    spreads: Mapping[str, float]
    estimated: str
    chosen: str
    uses: int


@dataclass(frozen=True)
class Tuning:
    """What tuning a model found: native calls in nanoseconds before and after. ``kept``: whether the choices were
    remembered; they are not when the cache is off. ``alone``: choices that were faster by themselves, but given up as
    the whole model was not faster with them by more than the noise."""

    signatures: list[Tuned]
    before_ns: float
    after_ns: float
    kept: bool
    alone: int = 0


@dataclass
class _Variant:
    """The model compiled with some choices, and the time of every command in every round so far."""

    programs: list[TimedBound]
    rounds: list[Times] = field(default_factory=list)

    def commands(self) -> list[Command]:
        return [c for p in self.programs for c in p.program.commands]

    def turn(self, threads: int) -> None:
        """Runs once with clocks."""
        self.rounds.append(np.concatenate([p.profile(threads) for p in self.programs]).astype(np.float64))

    def whole(self) -> Times:
        """Nanoseconds of all commands together in every round."""
        return np.asarray(np.stack(self.rounds).sum(axis=1))

    def spent(self) -> dict[tuple[str, str], tuple[Times, int]]:
        """Nanoseconds in all, in every round, and uses of every signature and candidate."""
        total: dict[tuple[str, str], Times] = {}
        uses: dict[tuple[str, str], set[int]] = {}
        for command, ns in zip(self.commands(), np.stack(self.rounds, axis=1), strict=True):
            for choice in command.choices:
                key = (choice.signature, choice.name)
                total[key] = total[key] + ns if key in total else ns
                uses.setdefault(key, set()).add(id(choice))
        return {key: (ns, len(uses[key])) for key, ns in total.items()}


class Tuner:
    """Tunes one graph with one configuration for inputs of some sizes."""

    def __init__(
        self,
        graph: Graph,
        config: Config,
        feeds: Mapping[Value, np.ndarray],
        rounds: int,
        report_progress: ReportProgress = silent,
    ) -> None:
        self._graph, self._feeds, self._rounds, self._report_progress = graph, dict(feeds), rounds, report_progress
        self._config = config
        self._machines = Machines(config)
        self._names: dict[str, list[str]] = {}
        self._outer: set[str] = set()
        self._times: dict[tuple[str, str], Times] = {}
        self._uses: dict[str, int] = {}

    def run(self) -> Tuning:
        """Measures everything, and remembers what was found."""
        self._discover()
        inner = [s for s in self._names if s not in self._outer]
        outer = [s for s in self._names if s in self._outer]
        ways = max((len(self._names[s]) for s in outer), default=1)
        depth = max((len(self._names[s]) for s in inner), default=1)
        if depth > 1:
            forced = [self._nth(outer, k) | self._nth(inner, j) for k in range(ways) for j in range(depth)]
            self._measure(forced, set(inner), "algorithms")
        settled = self._winners(inner)
        if ways > 1:
            self._measure([self._nth(outer, k) | settled for k in range(ways)], set(outer), "fusion")
        chosen = settled | self._winners(outer)
        found = [self._tuned(s, chosen) for s in self._names if len(self._names[s]) > 1]
        changed = sum(t.chosen != t.estimated for t in found)
        before, after = self._compare(chosen)
        better = faster(after, before)
        if not better:
            found = [replace(t, chosen=t.estimated) for t in found]
        kept = bool(found) and self._config.cache and remember(self._config, {t.signature: t.chosen for t in found})
        least = float(np.min(before))
        return Tuning(found, least, float(np.min(after)) if better else least, kept, 0 if better else changed)

    def _discover(self) -> None:
        """Finds all signatures and their candidates, also those that only other choices bring about."""
        turn = 0
        while turn < max((len(n) for n in self._names.values()), default=1):
            self._report_progress(f"compiling, turn {turn + 1}")
            variant = self._variant(self._nth(list(self._names), turn))
            for command in variant.commands():
                for depth, choice in enumerate(command.choices):
                    self._note(choice)
                    if depth:
                        self._outer.add(choice.signature)
            turn += 1

    def _note(self, choice: Choice) -> None:
        self._names.setdefault(choice.signature, [choice.name, *choice.rejected])

    def _nth(self, signatures: list[str], n: int) -> dict[str, str]:
        """The n-th candidate of each; where there are fewer, the estimated one."""
        names = self._names
        return {s: names[s][n if n < len(names[s]) else 0] for s in signatures}

    def _variant(self, tuned: Mapping[str, str], tuning: bool = True) -> _Variant:
        executor = Executor(self._graph, self._config, self._machines, tuned=tuned, tuning=tuning)
        for _ in range(_WARM_UP):
            executor.run(self._feeds, self._graph.outputs)
        return _Variant([part for p in executor.last_plans for part in p.bound.parts()])

    def _measure(self, forced: list[dict[str, str]], signatures: set[str], what: str) -> None:
        variants = [self._variant(f) for f in forced]
        for turn in range(self._rounds):
            self._report_progress(f"{what}, {plural(len(variants), 'program')}", turn, self._rounds)
            for variant in variants:
                variant.turn(self._config.threads)
        for variant in variants:
            for key, (ns, uses) in variant.spent().items():
                if key[0] in signatures:
                    each = ns / uses
                    old = self._times.get(key)
                    self._times[key] = each if old is None or each.min() < old.min() else old
                    self._uses[key[0]] = max(self._uses.get(key[0], 0), uses)

    def _winners(self, signatures: list[str]) -> dict[str, str]:
        chosen: dict[str, str] = {}
        for signature in signatures:
            chosen[signature] = fastest(self._of(signature), self._names[signature][0])
        return chosen

    def _of(self, signature: str) -> dict[str, Times]:
        return {n: self._times[signature, n] for n in self._names[signature] if (signature, n) in self._times}

    def _compare(self, chosen: Mapping[str, str]) -> tuple[Times, Times]:
        """The times of the whole, as estimated and as chosen, turn by turn."""
        variants = [self._variant({}, False), self._variant(chosen, False)]
        for turn in range(self._rounds):
            self._report_progress("whole model", turn, self._rounds)
            for variant in variants:
                variant.turn(self._config.threads)
        return variants[0].whole(), variants[1].whole()

    def _tuned(self, signature: str, chosen: Mapping[str, str]) -> Tuned:
        names = self._names[signature]
        rounds = self._of(signature)
        least = {n: float(t.min()) for n, t in rounds.items()}
        spreads = {n: spread(t) if len(t) > 1 else 0.0 for n, t in rounds.items()}
        return Tuned(signature, least, spreads, names[0], chosen[signature], self._uses.get(signature, 0))


def fastest(times: Mapping[str, Times], estimated: str) -> str:
    """The candidate with the minimum time; the estimated one where that is not faster by more than the noise."""
    best = min(times, key=lambda name: float(times[name].min()), default=estimated)
    if best == estimated or estimated not in times or not faster(times[best], times[estimated], WORTH):
        return estimated
    return best


def remember(config: Config, chosen: Mapping[str, str]) -> bool:
    """Adds choices to what is remembered for this processor and these settings; False when nothing can be kept."""
    whole = {**known_choices(config), **chosen}
    return write_note(choices_note(config), {"digest": generators(config), "choices": whole})
