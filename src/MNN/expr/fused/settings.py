"""What the whole process evaluates expressions with."""

from __future__ import annotations

from dataclasses import dataclass

from MNN.runtime.config import Config


@dataclass
class Settings:
    """Threads, precision, and whether to compute at once."""

    threads: int = 1
    loop_threads: int = 0
    """The most threads of a loop over the elements of large arrays; 0 for as many as there are processors."""
    precision: str = "normal"
    lazy: bool = False
    """Keep expressions of constants as expressions instead of computing them at once."""

    def config(self) -> Config:
        return Config(threads=self.threads, precision=self.precision)


SETTINGS = Settings()


__all__ = ["SETTINGS", "Settings"]
