"""What has no tensor form: those host functions that are differentiable have a rule by their label."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from MNN.autodiff.row_products import transposed
from MNN.autodiff.rules import Cotangents, Wanted, rule
from MNN.errors import UnsupportedError
from MNN.ir import prims as p
from MNN.ir.prims import Tensor
from MNN.ops.core.builder import Builder


@rule(p.Host)
def _host(b: Builder, prim: p.Host, g: Cotangents, wanted: Wanted) -> Sequence[Tensor | None]:
    found = next((fn for label, fn in _RULES.items() if prim.label.startswith(label)), None)
    if found is None:
        raise UnsupportedError(
            f"{prim.origin}: it computes '{prim.label}' by a function of numpy, which has no gradient; keep what is "
            "trained off this path"
        )
    return found(b, prim, g)


def _det(b: Builder, prim: p.Host, g: Cotangents) -> Sequence[Tensor | None]:
    """Jacobi's formula: the determinant times the transposed inverse. Singular matrices have no inverse: NaN."""
    x, given, out = prim.inputs[0], g[0], prim.outputs[0]
    assert given is not None
    share = b.reshape(b.op("mul", given, out), (*out.shape, 1, 1))
    return [b.op("mul", share, transposed(b, _inverse(b, x)))]


def _inverse(b: Builder, x: Tensor) -> Tensor:
    def run(arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        try:
            return [np.linalg.inv(arrays[0])]
        except np.linalg.LinAlgError:
            return [np.full_like(arrays[0], np.nan)]

    return b.host("inverse", run, [x], (x.dtype, x.shape))[0]


def _of_inverse(b: Builder, prim: p.Host, g: Cotangents) -> Sequence[Tensor | None]:
    """``-inv.T @ g @ inv.T``."""
    given, turned = g[0], transposed(b, prim.outputs[0])
    assert given is not None
    return [b.op("neg", b.matmul(b.matmul(turned, given), turned))]


_RULES: dict[str, Callable[[Builder, p.Host, Cotangents], Sequence[Tensor | None]]] = {
    "det": _det,
    "inverse": _of_inverse,
}
