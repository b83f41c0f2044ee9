"""How parameters are pulled to zero."""

from __future__ import annotations

import enum

from MNN.errors import MNNError
from MNN.nn.settings import shown


class Regularization_Method(enum.Enum):  # noqa: N801 - PyMNN's name
    """What ``weight_decay`` is multiplied with and added to a gradient: the sign of the parameter, it, or both."""

    L1 = 0
    L2 = 1
    L1L2 = 2

    @staticmethod
    def of(value: object) -> Regularization_Method:
        """A method by itself or by name. Raises :class:`MNNError` for others."""
        if isinstance(value, Regularization_Method):
            return value
        if isinstance(value, str) and value in Regularization_Method.__members__:
            return Regularization_Method[value]
        raise MNNError(f"regularization {shown(value)} is not known; it is L1, L2 or L1L2")


__all__ = ["Regularization_Method"]
