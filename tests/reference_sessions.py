"""ONNX Runtime as a reference takes one thread: with several, each of its sessions would keep other cores busy, where
other tests run. And its sums of bytes are exact: on processors without VNNI those of signed weights saturate, unless it
is told to take unsigned ones."""

from __future__ import annotations

import functools
from typing import Any

import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from MNN.backends.cpu.targets.host import processor

_EXACT = "session.x64quantprecision"


def _plainly(options: onnxruntime.SessionOptions) -> onnxruntime.SessionOptions:
    """Makes them those of sessions that run what is written."""
    options.add_session_config_entry(_EXACT, "0")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def prepare() -> None:
    """Sessions that say nothing of threads have one from here on, and exact sums where there is a way."""
    session = onnxruntime.InferenceSession
    real, real_run = session.__init__, session.run
    exact = bool({"avx512vnni", "avxvnni"} & set(processor()[0]))

    @functools.wraps(real)
    def made(self: Any, model: Any, sess_options: Any = None, *others: Any, **named: Any) -> None:
        options = sess_options or onnxruntime.SessionOptions()
        if options.intra_op_num_threads == 0:
            options.intra_op_num_threads = 1
        if not exact:
            self.instead = lambda: real(self, model, _plainly(options), *others, **named)
            options.add_session_config_entry(_EXACT, "1")
            try:
                return real(self, model, options, *others, **named)
            except (errors.NotImplemented, errors.Fail):  # it has no kernel for what it makes of signed activations
                return self.__dict__.pop("instead")()
        return real(self, model, options, *others, **named)

    @functools.wraps(real_run)
    def run(self: Any, *given: Any, **named: Any) -> Any:
        try:
            return real_run(self, *given, **named)
        except errors.Fail:  # or made zero points that its own kernels refuse
            if (instead := self.__dict__.pop("instead", None)) is None:
                raise
            instead()
            return real_run(self, *given, **named)

    session.__init__, session.run = made, run


__all__ = ["prepare"]
