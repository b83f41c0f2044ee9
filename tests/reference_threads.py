"""ONNX Runtime as a reference takes one thread: with several, each of its sessions would keep other cores busy, where
other tests run."""

from __future__ import annotations

import functools
from typing import Any

import onnxruntime


def limit() -> None:
    """Sessions that say nothing of threads have one from here on."""
    real = onnxruntime.InferenceSession.__init__

    @functools.wraps(real)
    def made(self: Any, model: Any, sess_options: Any = None, *others: Any, **named: Any) -> None:
        options = sess_options or onnxruntime.SessionOptions()
        if options.intra_op_num_threads == 0:
            options.intra_op_num_threads = 1
        real(self, model, options, *others, **named)

    onnxruntime.InferenceSession.__init__ = made


__all__ = ["limit"]
