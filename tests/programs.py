"""What a session runs, by which two of them can be told to compute the same: then one need not be tried at length.

On a processor that multiplies single precision fastest, most networks are the same program at every precision.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from MNN.backends.base.backend import NotPortableError
from MNN.backends.base.program import Command, Program
from MNN.backends.base.registry import backend
from MNN.cache.packed import PackedStore
from MNN.runtime.session import Session
from MNN.runtime.storage.form import Unfit, dump


def digest_of(session: Session, inputs: Sequence[Mapping[str, np.ndarray]]) -> str | None:
    """Equal for sessions on this machine that run, for all of the ``inputs``, the same kernels on the same numbers in
    the same places: it is that of the form in which programs are stored. None where nothing is to be told of them: when
    inputs differ in size, when outputs come of more than one program, or one has steps in Python."""
    if len({tuple((name, a.shape) for name, a in feeds.items()) for feeds in inputs}) != 1:
        return None
    try:
        found = {_digest(session, feeds) for feeds in inputs}
    except (NotPortableError, Unfit):
        return None
    return found.pop() if len(found) == 1 else None


class Tried:
    """Programs that sessions have run, so that precisions which come to the same one are tried as one."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, bytes]] = {}

    def before(self, session: Session, inputs: Sequence[Mapping[str, np.ndarray]], bound: float) -> bool:
        """Whether another session of the same program is being tried on these inputs, with a ``bound`` for its errors
        that is as strict. Both must give the same bits for the first of them."""
        given = session.run(inputs[0])
        program = digest_of(session, inputs)
        if program is None:
            return False
        bits = b"".join(array.tobytes() for array in given.values())
        strictest, numbers = self._first.setdefault(program, (bound, bits))
        assert bits == numbers, "the same program gives something else"
        if strictest == bound:
            return False
        assert strictest < bound, "begin with the strictest"
        return True


def _digest(session: Session, feeds: Mapping[str, np.ndarray]) -> str:
    stored = session.stored_program(feeds)
    plan = None if stored else session.whole_plan(feeds)
    if stored is None and (plan is None or plan.guards):
        raise Unfit("there are several programs")
    program: Program = stored[0].program if stored else plan.bound.program  # type: ignore[union-attr]
    portable = backend(session.config.backend, session.config.cache).portable(program)
    plain = replace(portable, commands=[_unexplained(c) for c in portable.commands])
    return hashlib.sha256(dump(plain, PackedStore.shared())).hexdigest()


def _unexplained(command: Command) -> Command:
    """Without the reasons why it was chosen, which name the precision that was asked for."""
    stages = tuple(replace(stage, command=_unexplained(stage.command)) for stage in command.stages)
    return replace(command, choice=None, choices=(), stages=stages)


__all__ = ["Tried", "digest_of"]
