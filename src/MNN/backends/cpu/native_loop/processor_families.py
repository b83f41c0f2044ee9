"""What the native loop needs of a processor family, and whether there is a clock."""

from __future__ import annotations

from MNN.backends.cpu.targets.base import Target
from MNN.backends.cpu.targets.loop_code import MACHINES


def has_clock(target: Target) -> bool:
    """Whether the loop can take time stamps on this processor."""
    return target.family in MACHINES


def clock_ir(target: Target) -> tuple[str, str]:
    """A call that reads the clock, and the declarations it needs; only where there :func:`has_clock`."""
    machine = MACHINES[target.family]
    return machine.clock, machine.declarations


__all__ = ["MACHINES", "clock_ir", "has_clock"]
