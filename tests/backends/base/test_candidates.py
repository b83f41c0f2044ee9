"""Choosing between algorithms."""

from MNN.backends.base.candidates import Candidate, choose


def candidates() -> list[Candidate]:
    return [Candidate("direct", 2000.0, lambda: None), Candidate("Winograd F(4,3)", 1000.0, lambda: None)]


def test_the_cheapest_is_taken() -> None:
    best, choice = choose("conv", candidates(), {})
    assert best.name == choice.name == "Winograd F(4,3)"
    assert choice.rejected == ("direct",)
    assert "estimated" in choice.reason
    assert "direct 2" in choice.reason


def test_a_measured_choice_goes_first() -> None:
    best, choice = choose("conv", candidates(), {"conv": "direct", "other": "Winograd F(4,3)"})
    assert best.name == "direct"
    assert choice.reason.startswith("measured")


def test_unknown_names_in_the_tuning_are_ignored() -> None:
    best, _ = choose("conv", candidates(), {"conv": "gone"})
    assert best.name == "Winograd F(4,3)"
