"""The table from TensorFlow's operators to handlers, filled by the files of ``operators/``.

>>> from MNN.frontends.tensorflow.registry import tf_op
>>> @tf_op("Relu")                                                # doctest: +SKIP
... def relu(ctx: Context, node: TfNode) -> Value:
...     return ctx.op("ReLU", node.input(0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from MNN.frontends.common.handlers import Handlers
from MNN.ir.graph import Value

if TYPE_CHECKING:
    from MNN.frontends.tensorflow.context import Context
    from MNN.frontends.tensorflow.node import TfNode

Handler = Callable[["Context", "TfNode"], "Value | Sequence[Value]"]
table: Handlers[Handler] = Handlers("MNN.frontends.tensorflow.operators", "TensorFlow")
tf_op = table.handles
