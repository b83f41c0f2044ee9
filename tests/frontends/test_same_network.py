"""The same trained network in several formats is the same program here."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.same_network import NETWORKS, Form

LIMITS = {"basic pitch": (1e-4, 1.01), "efficientnet": (2e-5, 1.0)}
"""How far answers may be apart, of the largest number, and how many times the operators of the shortest form others may
have."""


@pytest.fixture(scope="module", params=NETWORKS)
def forms(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Form]]:
    return request.param, NETWORKS[request.param][0](tmp_path_factory.mktemp("net"))


def test_answers_agree(forms: tuple[str, dict[str, Form]]) -> None:
    network, given = forms
    x = np.random.default_rng(0).standard_normal(NETWORKS[network][1]).astype(np.float32) * np.float32(0.1)
    first, *others = (form.run(x) for form in given.values())
    for other in others:
        assert [a.shape for a in other] == [a.shape for a in first]
        for a, b in zip(other, first, strict=True):
            assert np.abs(a - b).max() <= LIMITS[network][0] * np.abs(b).max()


def test_the_same_is_computed(forms: tuple[str, dict[str, Form]]) -> None:
    """Products, activations and reductions are those of the first format; what only arranges may be said otherwise."""
    network, given = forms
    work = {name: form.work() for name, form in given.items()}
    first = next(iter(work.values()))
    for name, found in work.items():
        assert found["product"] == first["product"], name
        assert abs(found.total() - first.total()) <= 2, {n: dict(w) for n, w in work.items()}
    counts = {name: len(form.graph.nodes) for name, form in given.items()}
    assert max(counts.values()) <= LIMITS[network][1] * min(counts.values()), counts


def test_products_have_the_same_shapes(forms: tuple[str, dict[str, Form]]) -> None:
    _, given = forms
    shapes = {
        name: sorted(
            tuple(sorted(d for d in v.shape or () if d != 1))
            for n in form.graph.nodes
            if n.op in ("Convolution", "ConvolutionDepthwise", "MatMul")
            for v in n.inputs[1:2]
            if v is not None and all(isinstance(d, int) for d in v.shape or ())
        )
        for name, form in given.items()
    }
    first = next(iter(shapes.values()))
    assert all(found == first for found in shapes.values())
