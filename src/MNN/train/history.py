"""What happened in training."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field


@dataclass
class Epoch:
    """One pass over the data: means over its samples, seconds, and the rate at its end."""

    epoch: int
    loss: float
    metrics: dict[str, float] = field(default_factory=dict)
    validation: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    learning_rate: float = 0.0

    def __str__(self) -> str:
        own = {"loss": self.loss, **self.metrics, **{f"validation {k}": v for k, v in self.validation.items()}}
        return f"epoch {self.epoch}: " + ", ".join(f"{k} {v:.4g}" for k, v in own.items()) + f" ({self.seconds:.1f} s)"


@dataclass
class Begun:
    """A part of an epoch: batches that are done, samples in them, sums over these of the loss and of metrics, the loss
    of every step, and how many samples batches and the data have (0 in older files)."""

    batches: int = 0
    samples: int = 0
    loss: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)
    batch_size: int = 0
    size: int = 0


@dataclass
class History:
    """All epochs, and the loss of every step."""

    epochs: list[Epoch] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    stopped: str = ""
    """Why it ended before the last epoch, if it did."""
    begun: Begun | None = None
    """An epoch that was interrupted."""

    @property
    def best(self) -> Epoch | None:
        """The epoch with the least loss of the validation (else of the training), the first of several."""
        return min(self.epochs, key=_loss, default=None)

    def text(self) -> str:
        """As JSON."""
        begun = None if self.begun is None else asdict(self.begun)
        return json.dumps({"epochs": [asdict(e) for e in self.epochs], "losses": self.losses, "begun": begun})

    @staticmethod
    def of(text: str) -> History:
        """From what :meth:`text` gave."""
        found = json.loads(text)
        begun = None if found["begun"] is None else Begun(**found["begun"])
        return History([Epoch(**e) for e in found["epochs"]], list(found["losses"]), "", begun)


def _loss(epoch: Epoch) -> float:
    """What epochs are compared by; NaN is worse than all else."""
    found = epoch.validation.get("loss", epoch.loss)
    return math.inf if math.isnan(found) else found


__all__ = ["Begun", "Epoch", "History"]
