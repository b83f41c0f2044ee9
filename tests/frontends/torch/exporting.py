"""A module of torch as a graph of ours, by way of the file that torch writes of it."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np
import torch

from MNN.errors import MNNError
from MNN.frontends.torch import exported, script
from MNN.frontends.torch.script.load import Given
from MNN.ir.dtype import DType

P = ParamSpec("P")


class Late(TimeoutError):  # noqa: N818
    """A case took too long."""


def judged(attempt: Callable[P, tuple[str, str]]) -> Callable[P, tuple[str, str]]:
    """An attempt whose errors are verdicts too: ours, torch's, those of time, and any others."""

    @functools.wraps(attempt)
    def tried(*args: P.args, **named: P.kwargs) -> tuple[str, str]:
        try:
            return attempt(*args, **named)
        except MNNError as error:
            return "refused", str(error)
        except RuntimeError as error:
            return ("torch" if str(error).startswith("torch:") else "broken"), str(error)
        except Late:
            return "late", ""
        except Exception as error:  # noqa: BLE001
            return "broken", f"{type(error).__name__}: {error}"

    return tried


def numbers(x: torch.Tensor) -> np.ndarray:
    """A tensor's numbers, copied; bfloat16 in the type that numpy has from ``ml_dtypes``."""
    x = x.detach().contiguous()
    if x.dtype is torch.bfloat16:
        import ml_dtypes

        return x.view(torch.int16).numpy().view(ml_dtypes.bfloat16).copy()
    return x.numpy().copy()


def graph_of(way: str, module: torch.nn.Module, tensors: Sequence[torch.Tensor], sizes: Any = None) -> Any:
    """The graph of a module: exported (``pt2``, with ``dynamic_shapes``), traced (``pt``) or scripted (``script``).

    Raises ``RuntimeError`` that begins with ``torch:`` where torch writes no file, ``MNNError`` where we read none.
    """
    held, tensors = io.BytesIO(), tuple(tensors)
    try:
        if way == "pt2":
            torch.export.save(torch.export.export(module, tensors, dynamic_shapes=sizes, strict=False), held)
        elif way == "pt":
            torch.jit.save(torch.jit.trace(module, tensors, check_trace=False, strict=False), held)
        else:
            torch.jit.save(torch.jit.script(module), held)
    except Late:
        raise
    except Exception as error:
        raise RuntimeError(f"torch: {type(error).__name__}: {error}") from error
    if way == "pt2":
        return exported.load(held.getvalue())
    inputs = list(torch.jit.load(io.BytesIO(held.getvalue())).graph.inputs())[1:]
    names = [i.debugName().split(".")[0] for i in inputs]
    given = {
        n: Given(tuple(t.shape), DType.of(numbers(t))) for n, t in zip(names, tensors, strict=False)
    }  # others are optional
    return script.load(held.getvalue(), given)
