"""Operators of PyTorch that there are not here on purpose, and what to do instead."""

from __future__ import annotations

_EIGEN = "eigenvalues of any matrix are complex: take linalg_eigh of a symmetric one, or compute them outside"
_HISTOGRAM = "count along one axis with histogram, or outside"
_POLYNOMIALS = "write polynomials by their recurrence of products and sums, and compute Airy functions outside"
_DRAWS = "draw the numbers outside, and make them an input"
_OPTIMISED = (
    "torch.jit.optimize_for_inference wrote an archive without these weights, which torch cannot run either: save "
    "torch.jit.freeze(module) instead"
)
ABSENT: dict[str, str] = {
    **dict.fromkeys(("linalg_eig", "linalg_eigvals", "_linalg_eigvals"), _EIGEN),
    **dict.fromkeys(
        ("linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve"), "take linalg_lu_factor or linalg_solve"
    ),
    **dict.fromkeys(("geqrf", "ormqr", "orgqr", "linalg_householder_product"), "take linalg_qr"),
    **dict.fromkeys(
        ("histogramdd", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors"),
        _HISTOGRAM,
    ),
    **dict.fromkeys(("poisson", "binomial", "_standard_gamma", "_sample_dirichlet", "random"), _DRAWS),
    **dict.fromkeys(
        ("ConstantMKLDNNTensor", "BroadcastMKLDNNTensors", "to_mkldnn", "MKLDNNHardSwish", "MKLDNNHardSigmoid",
         "MKLDNNHardTanh", "MKLDNNClamp", "MKLDNNLayerNorm", "MKLDNNScalarMul"),
        _OPTIMISED,
    ),
    "special_airy_ai": _POLYNOMIALS,
    **dict.fromkeys(
        (
            f"special_{before}chebyshev_polynomial_{kind}" for before in ("", "shifted_") for kind in "tuvw"
        ),
        _POLYNOMIALS,
    ),
    **dict.fromkeys(
        (f"special_{one}" for one in ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
                                      "legendre_polynomial_p")),
        _POLYNOMIALS,
    ),
}  # fmt: skip
"""Advice by the operator's name."""


def advice(name: str, otherwise: str) -> str:
    """What to do about an operator that is not here; ``name`` without library and underscore."""
    if name.endswith("_backward"):
        return "export the model in evaluation mode: gradients are no part of inference"
    return ABSENT.get(name.removesuffix("_"), otherwise)


__all__ = ["ABSENT", "advice"]
