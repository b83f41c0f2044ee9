"""Tuning: every candidate is measured, choices are remembered for the right settings, and sessions take them up."""

from __future__ import annotations

import numpy as np
import pytest

from MNN.backends.base.candidates import Candidate
from MNN.backends.cpu.emission.emitter import Emitter
from MNN.backends.cpu.gemm.contraction import ContractSpec
from MNN.cache.entries import Cache
from MNN.cache.notes import write_note
from MNN.runtime.config import Config
from MNN.runtime.profile import noise, tuning
from MNN.runtime.profile.tuning import Tuner, remember
from MNN.runtime.session import Session
from MNN.runtime.storage import tuned_choices
from MNN.runtime.storage.tuned_choices import choices_mark, choices_note, known_choices
from tests.runtime.models import branching, convolutions

MEASURED = tuning._Variant.spent
FEEDS = {"x": np.random.default_rng(5).standard_normal((1, 3, 32, 32), np.float32)}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MNN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(Cache, "_off_everywhere", False)


@pytest.fixture
def two_ways(monkeypatch):
    """Every choice gets a second candidate that does the same but is said to be slower."""
    original = Emitter.choose

    def choose(self, signature, candidates, *place):
        best = min(candidates, key=lambda c: c.cycles)
        other = Candidate("the other way", best.cycles * 2, best.emit)
        original(self, signature, [*candidates, other], *place)

    monkeypatch.setattr(Emitter, "choose", choose)


def tuned(graph, config, rounds=2):
    session = Session(graph, config)
    values = {v: FEEDS[v.name] for v in session.graph.inputs if not v.is_const}
    return Tuner(session.graph, config, values, rounds).run()


def rounds(ns, spread=0.0):
    """Times of several rounds, the slowest ``spread`` above the least."""
    return np.linspace(ns, ns + spread, 5)


def replace_times(monkeypatch, other_way, estimated=100.0, noise=0.0):
    """Nanoseconds of the other way and of every real candidate, as if the processor had taken them."""

    def times(self):
        found = MEASURED(self)
        return {
            k: (rounds(other_way if k[1] == "the other way" else estimated, noise), n) for k, (_, n) in found.items()
        }

    monkeypatch.setattr(tuning._Variant, "spent", times)


def choices(graph, config):
    session = Session(graph, config)
    session.run(FEEDS)
    return [c for p in session.plans_used() for command in p.bound.program.commands for c in command.choices]


def test_all_candidates_are_measured(two_ways):
    config = Config()
    found = tuned(convolutions(), config)
    assert found.signatures
    for t in found.signatures:
        assert "the other way" in t.times
        assert all(ns > 0 for ns in t.times.values())
        assert t.estimated in t.times
        assert t.chosen in t.times
        assert t.uses >= 1
    assert found.kept
    assert known_choices(config) == {t.signature: t.chosen for t in found.signatures}
    for choice in choices(convolutions(), config):
        if choice.signature in known_choices(config):
            assert choice.reason.startswith("measured")


def test_the_faster_candidate_is_chosen(two_ways, monkeypatch):
    replace_times(monkeypatch, other_way=50.0)
    monkeypatch.setattr(Tuner, "_compare", lambda self, chosen: (rounds(2.0), rounds(1.0)))
    found = tuned(convolutions(), Config())
    assert {t.chosen for t in found.signatures} == {"the other way"}
    assert {c.name for c in choices(convolutions(), Config())} == {"the other way"}


def test_choices_that_make_the_whole_slower_are_given_up(two_ways, monkeypatch):
    replace_times(monkeypatch, other_way=50.0)
    monkeypatch.setattr(Tuner, "_compare", lambda self, chosen: (rounds(1.0), rounds(2.0)))
    found = tuned(convolutions(), Config())
    assert all(t.chosen == t.estimated for t in found.signatures)
    assert found.after_ns == found.before_ns == 1.0


def test_differences_inside_the_noise_change_nothing(two_ways, monkeypatch):
    """The other way takes 5 % less at best, and times differ by 10 % from round to round."""
    monkeypatch.setattr(Tuner, "_compare", lambda self, chosen: (rounds(100.0), rounds(95.0)))
    replace_times(monkeypatch, other_way=95.0, noise=10.0)
    assert all(t.chosen == t.estimated for t in tuned(convolutions(), Config()).signatures)
    replace_times(monkeypatch, other_way=95.0, noise=1.0)
    assert {t.chosen for t in tuned(convolutions(), Config()).signatures} == {"the other way"}
    assert "the other way" in known_choices(Config()).values()
    monkeypatch.setattr(Tuner, "_compare", lambda self, chosen: (rounds(100.0, 10.0), rounds(95.0, 10.0)))
    found = tuned(convolutions(), Config())
    assert all(t.chosen == t.estimated for t in found.signatures)
    assert found.alone == len(found.signatures)
    assert "the other way" not in known_choices(Config()).values()


def test_what_is_noise():
    quiet, loud = np.array([1.0, 1.01, 1.02, 1.03, 5.0]), np.array([0.9, 1.2, 1.4, 1.5, 1.6])
    assert noise.faster(quiet * 0.9, quiet)
    assert not noise.faster(quiet * 0.98, quiet)
    assert not noise.faster(quiet, quiet)
    assert not noise.faster(loud, quiet)
    assert not noise.faster(quiet * 2, quiet)
    assert not noise.faster(np.array([1.0]), np.array([2.0]))  # one round says nothing of its noise
    same = np.random.default_rng(0).exponential(1, (2000, 2, 30)) + 10
    wrong = sum(noise.faster(a, b) for a, b in same)
    assert wrong < 20, wrong  # of 2000 pairs that are the same but for chance


@pytest.mark.usefixtures("without_tiles")
def test_register_tiles_are_candidates_while_tuning_and_once_measured():
    """Otherwise planning lists only the usual tile."""
    found = tuned(convolutions(), Config(), 1)
    tiles = {n for t in found.signatures for n in t.times if n.startswith("implicit GEMM ")}
    assert len(tiles) > 2
    before = Session(convolutions(), Config(2)).run(FEEDS)
    products = [c for c in choices(convolutions(), Config(2)) if c.name == "implicit GEMM"]
    assert products
    assert all("implicit GEMM " not in " ".join(c.rejected) for c in products)
    remember(Config(2), {c.signature: "implicit GEMM 3x1" for c in products})
    session = Session(convolutions(), Config(2))
    after = session.run(FEEDS)
    commands = session.plans_used()[0].bound.program.commands
    chosen = [c.kernel for c in commands if c.choice is not None and c.choice.name == "implicit GEMM 3x1"]
    assert [(k.mr, k.nv) for k in chosen if isinstance(k, ContractSpec)] == [(3, 1)] * len(products)
    np.testing.assert_allclose(after["y"], before["y"], rtol=1e-5, atol=1e-6)
    remember(Config(2), {c.signature: "implicit GEMM 99x99" for c in products})
    assert {c.name for c in choices(convolutions(), Config(2))} >= {"implicit GEMM"}


def test_results_stay_the_same(two_ways):
    before = Session(convolutions(), Config()).run(FEEDS)
    first = choices(convolutions(), Config())
    remember(Config(), {c.signature: "the other way" for c in first})
    after = Session(convolutions(), Config()).run(FEEDS)
    np.testing.assert_allclose(after["y"], before["y"], rtol=1e-5, atol=1e-6)


def test_remembered_for_these_settings_only(monkeypatch):
    config = Config(2, "high")
    assert known_choices(config) == {}
    before = choices_mark(config)
    assert remember(config, {"conv a": "way 1"})
    assert remember(config, {"conv b": "way 2"})
    assert known_choices(config) == {"conv a": "way 1", "conv b": "way 2"}
    assert choices_mark(config) != before
    for other in (Config(1, "high"), Config(2, "normal"), Config(2, "high", cache=False)):
        assert known_choices(other) == {}
        assert choices_mark(other) == ""
    monkeypatch.setattr("MNN.backends.cpu.codegen.library.generator_digest", lambda: "newer kernels")
    assert known_choices(config) == {}


def test_senseless_notes_are_ignored():
    from MNN.backends.cpu.codegen.library import generator_digest

    config = Config()
    write_note(choices_note(config), {"choices": ["a"], "digest": generator_digest()})
    assert known_choices(config) == {}
    write_note(choices_note(config), {"choices": {"a": 1, "b": "x"}, "digest": generator_digest()})
    assert known_choices(config) == {"b": "x"}
    assert tuned_choices.known_choices(config) == {"b": "x"}


def test_models_of_several_stages(two_ways):
    graph = branching()
    values = {v: np.random.default_rng(1).standard_normal((6, 4), np.float32) for v in graph.inputs if not v.is_const}
    found = Tuner(graph, Config(), values, 1).run()
    assert found.signatures


def test_without_the_cache_nothing_is_kept(two_ways):
    found = tuned(convolutions(), Config(cache=False), 1)
    assert found.signatures
    assert not found.kept
