"""The one exception family that users of MNN see.

Every failure a user can cause ends in an :class:`MNNError` whose message says where (file, node), what was found,
what was expected and what to do. Programming errors inside the engine stay ordinary Python exceptions.
"""

from __future__ import annotations


class MNNError(Exception):
    """Base of all errors raised for bad input, unsupported models or misuse of the API."""

    layer = ""
    """The path of the module (:mod:`MNN.nn`) that it came from, where it came from one."""


MISFITS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What Python and numpy raise when rules meet parts of a model that they were not made for. Caught only where one node
of a user's model is worked on, and raised again as an :class:`MNNError` that names the node and keeps the cause."""


class FormatError(MNNError):
    """A model file is malformed: truncated, inconsistent, or refers outside of itself."""


class UnsupportedError(MNNError):
    """A model is well formed but uses something this engine cannot do; names every such place."""


class ShapeError(MNNError):
    """Shapes or dtypes of tensors do not fit together, or do not fit the model's declared inputs."""


class RunError(MNNError):
    """An inference failed while running (for example an index out of range in the data)."""


class UndefinedError(MNNError, NotImplementedError):
    """A method that the user's class must define, and does not."""


class CallError(MNNError, TypeError):
    """Arguments that a function with several forms takes in none of them; a ``TypeError`` as those that do not fit the
    signature of one."""
