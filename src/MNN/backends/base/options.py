"""What a compilation is told besides the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """``threads``: how many workers share the commands. ``precision``: ``high``, ``normal`` or ``low``, see
    :class:`MNN.runtime.config.Config`. ``tuned``: algorithms measured to be the fastest, by the signature of the work
    (see :mod:`MNN.backends.base.candidates`); what it does not name is chosen by the cost model. ``tuning``: list more
    candidates than planning has time for, to measure them. ``open_sizes``: some sizes are left open
    (:class:`MNN.ir.traced.OpenSize`); of what cannot be said for all of them nothing is made. ``states``: numbers of
    inputs and outputs that are kept from run to run, in the same memory where they can be (``Program.states``).
    ``compared``: the program is compared with another and never runs; memory need not be laid out for it."""

    threads: int = 1
    precision: str = "normal"
    tuned: Mapping[str, str] = field(default_factory=dict)
    tuning: bool = False
    open_sizes: bool = False
    states: tuple[tuple[int, int], ...] = ()
    compared: bool = False
