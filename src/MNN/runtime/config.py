"""How a session runs: threads, precision, kernel cache."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.errors import MNNError

PRECISIONS = ("high", "normal", "low")


@dataclass(frozen=True)
class Config:
    """Settings of a session.

    ``threads``: how many threads an inference may use. ``precision``: ``high`` and ``normal`` compute fp32 products in
    fp32; ``low`` allows 16-bit storage where a kernel has it. ``cache``: keep compiled kernels on disk.
    ``reference``: no kernels at all, every primitive by its numpy meaning (slow; to check kernels against).
    """

    threads: int = 1
    precision: str = "normal"
    cache: bool = True
    reference: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.threads <= 256:
            raise MNNError(f"the number of threads must be between 1 and 256, not {self.threads}")
        if self.precision not in PRECISIONS:
            raise MNNError(f"precision is one of {', '.join(PRECISIONS)}, not '{self.precision}'")
