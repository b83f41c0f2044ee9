"""Scaling of losses, so that small gradients do not vanish in f16 (Micikevicius et al., "Mixed Precision Training",
2018). The scale is a power of two, so that nothing is rounded by it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from MNN.errors import MNNError, RunError
from MNN.nn.settings import not_negative

FIRST, LEAST, LARGEST = 2.0**16, 2.0**-14, 2.0**24
GROWS_AFTER = 2000
"""Steps in a row with finite gradients after which a scale that is found is doubled."""
DYNAMIC = "dynamic"


class LossScale:
    """What losses are multiplied by now, and how it changes."""

    def __init__(self, now: float, dynamic: bool) -> None:
        self.now, self.dynamic = now, dynamic
        self.good = 0
        """Losses with finite gradients since it has changed."""
        self.left_out = 0
        """Losses that made no step, as gradients were infinite or NaN."""

    @staticmethod
    def of(setting: object) -> LossScale | None:
        """From ``loss_scale`` of an optimizer. Raises :class:`MNNError` for what is none."""
        if setting is None or isinstance(setting, LossScale):
            return setting
        if isinstance(setting, str):
            if setting != DYNAMIC:
                raise MNNError(f"loss_scale is a number above 0 or {DYNAMIC!r}, found {setting!r}")
            return LossScale(FIRST, True)
        found = not_negative("loss_scale", setting)
        if not found:
            raise MNNError("loss_scale must be above 0, found 0")
        return LossScale(found, False)

    def update(self, finite: bool) -> None:
        """After a loss. Raises :class:`RunError` where no scale makes gradients finite."""
        if not self.dynamic:
            return
        if finite:
            self.good += 1
            if self.good >= GROWS_AFTER and self.now < LARGEST:
                self.now, self.good = 2 * self.now, 0
            return
        self.left_out += 1
        if self.now <= LEAST:
            raise RunError(
                f"gradients are infinite or NaN with a loss scale of {self.now} too, while the loss is finite: an "
                "optimizer with debug=True and without loss_scale names the operator where it began"
            )
        self.now, self.good = self.now / 2, 0

    def state(self) -> dict[str, np.ndarray]:
        """What going on exactly takes."""
        return {"scale": np.asarray(self.now), "good": np.asarray(self.good)}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Goes on from :meth:`state`; a state without a scale leaves it as it is set."""
        if self.dynamic and "scale" in state and "good" in state:
            self.now, self.good = float(state["scale"]), int(state["good"])


__all__ = ["LossScale"]
