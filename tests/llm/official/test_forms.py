"""Forms of written weights: rounding for inputs that were seen, and weights that are of a form already."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN.errors import MNNError, UnsupportedError
from MNN.ir.quant import QuantizedArray
from MNN.llm.engine.loaded import at_an_end, quantize
from MNN.llm.files import open_weights
from MNN.llm.models.weights import Array
from MNN.llm.official import calibrated
from MNN.llm.official.convert import convert
from MNN.llm.official.form import Form, FormedWeights, calibrated_weights
from MNN.runtime.config import Config
from MNN.weight_quantization.compensated import quantize_compensated
from tests import zoo
from tests.cli.conftest import run_command
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.official import sources
from tests.llm.test_families import RECORDED
from tests.llm.test_reranker import PAIRS

HIGH = Config(precision="high", cache=False, threads=1)


def _inputs(rng: np.random.Generator, cols: int, count: int = 400) -> np.ndarray:
    """Some that hang together, as those of networks do, one that is much larger than others, one that is nothing."""
    mixed = rng.standard_normal((count, 6)) @ rng.standard_normal((6, cols)) + 0.3 * rng.standard_normal((count, cols))
    mixed[:, rng.integers(cols)] *= 20
    mixed[:, rng.integers(cols)] = 0
    return mixed.astype(np.float32)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("bits", "block", "symmetric"), [(4, 16, False), (4, 32, True), (3, 64, False), (2, 192, True), (8, 384, False)]
)
def test_results_change_less(seed: int, bits: int, block: int, symmetric: bool) -> None:
    """Than by rounding to the nearest, for inputs that were seen and for others like them."""
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((40, 384)).astype(np.float32)
    seen = _inputs(rng, 384, 1600)
    seen, others = seen[:800], seen[800:]
    made = quantize_compensated(weight, seen.T @ seen, bits, block, symmetric)
    plain = quantize(weight, bits, block, symmetric)
    assert (made.bits, made.scale.shape, made.shape) == (bits, (40, 384 // block), (40, 384))
    assert (made.offset is None) == symmetric
    for x, share in ((seen, 0.6), (others, 0.75)):
        errors = [np.square(x @ (q.dequantize() - weight).T).mean() for q in (made, plain)]
        assert errors[0] <= share * errors[1]


def test_steps_are_those_of_the_paper() -> None:
    """Column by column in float64, with the inverse of what is left made anew for each."""
    rng = np.random.default_rng(7)
    weight, x = rng.standard_normal((5, 48)).astype(np.float32), _inputs(rng, 48)
    moments = x.T @ x
    made = quantize_compensated(weight, moments, 4, 16)
    full = moments.astype(np.float64)
    places = np.arange(48)
    full[places, places] = np.where(full[places, places] > 0, full[places, places], 1.0)
    full[places, places] += 0.01 * full[places, places].mean()
    left = weight.astype(np.float64)
    scale, low = made.scale, made.offset - 8 * made.scale  # type: ignore[operator]
    for i in range(48):
        inverse = np.linalg.inv(full[i:, i:])
        at = i // 16
        codes = np.clip(np.rint((left[:, i] - low[:, at]) / scale[:, at]), 0, 15)
        assert (codes - 8 == made.values[:, i]).mean() >= 0.8  # ties of what was rounded in between go either way
        error = (left[:, i] - (made.values[:, i] + 8.0) * scale[:, at] - low[:, at]) / inverse[0, 0]
        left[:, i:] -= np.outer(error, inverse[0])


def test_numbers_of_the_form_stay() -> None:
    rng = np.random.default_rng(3)
    steps = rng.integers(0, 16, (6, 64))
    steps[:, ::16], steps[:, 1::16] = 0, 15
    weight = (steps * 0.25 - 2.0).astype(np.float32)
    x = _inputs(rng, 64)
    np.testing.assert_array_equal(quantize_compensated(weight, x.T @ x, 4, 16).dequantize(), weight)
    still = np.full((3, 32), 1.5, np.float32)
    np.testing.assert_array_equal(quantize_compensated(still, np.zeros((32, 32)), 4, 16).dequantize(), still)


def _notes(family: str) -> dict[str, Any]:
    return next(n for n in RECORDED if n["config"]["model_type"] == family and n["seed"] == 0)


@pytest.mark.parametrize("family", ["llama", "chatglm", "phi3"])
def test_what_a_model_was_calibrated_with(tmp_path: Path, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits are nearer to the unrounded model's than by rounding to the nearest, with all layers at once and in
    parts."""
    notes = _notes(family)
    config, tensors = notes["config"], open_weights(sources.write(tmp_path / "source", notes))
    arrays = cases.weights(notes["shapes"], notes["seed"])
    rng = np.random.default_rng(5)
    tokens = rng.zipf(1.5, 4000) % next(iter(arrays.values())).shape[0]
    form = Form(3, 16)

    def logits(made: Mapping[str, Array]) -> np.ndarray:
        decoder = decoder_of(config, Arrays({**arrays, **made}), HIGH)
        return decoder.feed(decoder.text(), tokens[:30].tolist(), every=True)

    def error(made: Mapping[str, Array]) -> float:
        return float(np.square(logits(made) - logits({})).mean())

    errors = []
    for memory in (1 << 29, 1):
        monkeypatch.setattr(calibrated, "MEMORY", memory)
        made = calibrated_weights(config, tensors, form, tokens[30:].tolist(), lambda *_: None)
        errors.append(error(made))
    plain = error({name: quantize(arrays[name], 3, form.of(made[name].cols)) for name in made})
    assert len(made) >= 4 * config.get("num_hidden_layers", 2)
    assert max(errors) <= 0.8 * plain


def test_short_texts_are_refused(tmp_path: Path) -> None:
    source = sources.write(tmp_path / "source", _notes("llama"))
    (tmp_path / "text").write_text("too short")
    made = run_command("llm", "convert", source, tmp_path / "out", "--calibrate", tmp_path / "text")
    assert (made.code, "expected are 512 or more" in made.err) == (2, True)
    assert not (tmp_path / "out").exists()
    with pytest.raises(MNNError, match="expected are 512"):
        convert(source, tmp_path / "out", text="")
    capped = sources.write(tmp_path / "capped", _notes("gemma2"))
    with pytest.raises(UnsupportedError, match="cap its scores"):  # before the text is looked at
        convert(capped, tmp_path / "out", text="")


@pytest.mark.parametrize("notes", [n for n in RECORDED if n["seed"] == 0], ids=lambda n: n["config"]["model_type"])
def test_what_keeps_eight_bits(notes: dict[str, Any]) -> None:
    """Of layers none: tables alone, and what is behind the last layer."""
    ends = {name for name in notes["shapes"] if at_an_end(name)}
    inner = {name for name in notes["shapes"] if re.search(r"\.\d+\.", name) and "altup_unembed" not in name}
    assert not ends & inner
    assert {
        name for name, shape in notes["shapes"].items() if len(shape) > 1 and shape[0] == cases.VOCABULARY
    } <= ends | inner


def test_heads_keep_eight_bits() -> None:
    """What makes scores and classes of the last layer's numbers is behind it, too."""
    shapes = {name: shape for notes in PAIRS for name, shape in notes["shapes"].items() if "layer" not in name}
    heads = {name for name, shape in shapes.items() if len(shape) > 1 and "relative_attention_bias" not in name}
    assert {"classifier.weight", "pre_classifier.weight", "classifier.out_proj.weight"} < heads
    assert {name for name in heads | {"score.weight"} if not at_an_end(name)} == set()


def test_weights_of_the_form_stay() -> None:
    """A file in 4 bits with offsets for 32 neighbours, asked for in 4 bits: nothing is rounded again."""
    tensors = open_weights(zoo.path("smollm2_gguf"))
    form = Form(4).for_source(tensors)
    assert form.block == 32
    name = "model.layers.3.mlp.down_proj.weight"
    held = tensors[name].quantized()
    kept = FormedWeights(tensors, form, lambda *_: None)[name]
    assert held is not None
    assert isinstance(kept, QuantizedArray)
    np.testing.assert_array_equal(kept.dequantize(), held.dequantize())
    assert form.kept(held, 8) is None
    assert Form(4, 64).kept(held, 4) is None
    assert Form(4, 32, symmetric=True).kept(held, 4) is None
    assert Form(8).for_source(tensors).block == 64
    flat = QuantizedArray(held.codes, held.scale, None, 4, held.shape, held.width)
    with_zeros = form.kept(flat, 4)
    assert with_zeros is not None
    np.testing.assert_array_equal(with_zeros.dequantize(), flat.dequantize())
