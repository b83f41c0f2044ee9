"""What stands for a complex tensor, and the table of operators that take or give one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from MNN.frontends.common.handlers import Handlers
from MNN.frontends.torch.aliases import Variable
from MNN.frontends.torch.builder import TorchBuilder
from MNN.frontends.torch.element_types import ComplexType
from MNN.ir.graph import Value

ADVICE = "write it with real numbers (torch.view_as_real)"


class Complex:
    """``pairs``: real and imaginary parts along the last axis. Views share it, so that writing to one changes all."""

    def __init__(self, pairs: Variable) -> None:
        self.pairs = pairs

    def read(self, ctx: TorchBuilder) -> Value:
        """For what takes real tensors alone. Raises :class:`UnsupportedError`."""
        raise ctx.unsupported("a complex tensor here", ADVICE)

    def numbers(self, ctx: TorchBuilder) -> Value:
        """The pairs that it holds now."""
        return self.pairs.read(ctx)

    def rank(self, ctx: TorchBuilder) -> int:
        return ctx.rank_of(self.numbers(ctx)) - 1


Handler = Callable[..., Any]
"""Takes the builder and the operator's arguments, tensors as :class:`Variable` or :class:`Complex`, and gives those."""
COMPLEX: Handlers[Handler] = Handlers("MNN.frontends.torch.complex", "complex ATen")


def is_complex(given: Any) -> bool:
    """Whether there is a complex tensor, number or element type among arguments."""
    if isinstance(given, (list, tuple)):
        return any(is_complex(g) for g in given)
    return isinstance(given, (Complex, ComplexType, complex))


def apply_complex(ctx: TorchBuilder, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator gives. Raises :class:`UnsupportedError` for one that has no meaning here for complex tensors."""
    handler = COMPLEX.find(name)
    ctx.name = name
    if handler is None:
        raise ctx.unsupported("the operator on complex tensors", ADVICE)
    try:
        return handler(ctx, *args, **kwargs)
    except TypeError as error:
        raise ctx.unsupported(f"this form of the operator ({error})") from error
