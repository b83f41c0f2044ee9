"""Processor families, one file each: registers, lanes, features, and the numbers that cost models use."""

from __future__ import annotations

from MNN.backends.cpu.targets.base import Target, families, host_target, named_target, target_names

__all__ = ["Target", "families", "host_target", "named_target", "target_names"]
