"""Caches in files: what is loaded goes on as what was saved; files of others, and damaged ones, are refused."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import numpy as np
import pytest

from MNN.errors import MNNError
from MNN.llm.engine.kept import fingerprint, load_text, save_text
from MNN.llm.engine.paged import PagedDecoder
from MNN.llm.language_model import LanguageModel
from MNN.llm.models.cache import PAGE
from MNN.runtime.config import Config
from MNN.schema.arrays import read_noted, write_arrays
from tests.llm import cases
from tests.llm.check import Arrays, decoder_of
from tests.llm.test_families import RECORDED


def fresh(family: str, bits: int) -> PagedDecoder:
    notes = next(n for n in RECORDED if n["config"]["model_type"] == family)
    data = Arrays(cases.weights(notes["shapes"], notes["seed"]))
    return decoder_of(notes["config"], data, Config(precision="high", cache=False), 40 * PAGE, bits)


def used(decoder: PagedDecoder) -> int:
    gc.collect()
    return sum(pool.used for pool in (*decoder.pools, decoder.slots))


@pytest.mark.parametrize(
    ("family", "bits"), [("llama", 32), ("gemma2", 16), ("mistral", 8), ("deepseek_v2", 4), ("qwen3_next", 32)]
)
def test_another_process_goes_on(tmp_path: Path, family: str, bits: int) -> None:
    rng = np.random.default_rng(bits)
    length = int(rng.integers(PAGE + 1, 4 * PAGE))
    prompt, more = cases.tokens(3, length), cases.tokens(4, 9)
    decoder, other, file = fresh(family, bits), fresh(family, bits), tmp_path / "text.cache"
    text = decoder.text()
    decoder.feed(text, prompt)
    save_text(decoder, text, file, "model")
    before = [
        (len(one.pages), one.gone, {name: decoder.pool(name)[one.pages[one.gone :]].copy() for name in names})
        for one, names in zip(text.lists, decoder.window_states, strict=True)
    ]
    wanted = decoder.feed(text, more, every=True)
    busy = other.text()
    other.feed(busy, cases.tokens(5, 70))  # pages of others lie in between
    loaded = load_text(other, file, "model")
    assert loaded.tokens == prompt
    for number, names in enumerate(other.window_states):
        one, kept = loaded.lists[number], before[number]
        assert (len(one.pages), one.gone) == (kept[0], kept[1])
        for name in names:
            assert np.array_equal(other.pool(name)[one.pages[one.gone :]], kept[2][name])
    found = other.feed(loaded, more, every=True)
    # Plans for other sizes may sum up in another order, and codes of 16 bits round what differs in its last place.
    assert np.abs(found - wanted).max() <= (1e-5 if bits == 32 else 1e-4) * np.abs(wanted).max()
    assert load_text(fresh(family, bits), file, "model").tokens == prompt  # of a model that has not run yet
    del loaded, busy, text
    assert used(other) == used(decoder) == 0


def test_what_is_refused(tmp_path: Path) -> None:
    decoder, file = fresh("mistral", 16), tmp_path / "text.cache"
    text = decoder.text()
    with pytest.raises(MNNError, match="hold nothing"):
        save_text(decoder, text, file, "model")
    decoder.feed(text, cases.tokens(3, 90))
    save_text(decoder, text, file, "model")
    with pytest.raises(MNNError, match="by another model, by this one with other bits"):
        load_text(decoder, file, "other")
    arrays, _ = read_noted(file, "")
    before = used(decoder)
    changes = {
        "tokens": [np.zeros(0, np.int64), np.array([[1]]), np.array([99999]), np.array([-1]), np.array([0.5])],
        "gone0": [np.array(7), np.array(-1), np.array("x"), np.array([1, 2])],
        "past_keys0": [np.zeros((1, 2)), arrays["past_keys0"][:1], arrays["past_keys0"].astype(np.float32)],
    }
    for name, values in changes.items():
        for value in [*values, None]:
            found = {k: v for k, v in (arrays | {name: value}).items() if v is not None}
            write_arrays(file, found, "model")
            with pytest.raises(MNNError, match="is damaged"):
                load_text(decoder, file, "model")
    data = file.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(60):
        changed = bytearray(data[: int(rng.integers(0, len(data)))] if rng.random() < 0.4 else data)
        for place in rng.integers(0, max(len(changed), 1), 6) if changed else ():
            changed[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        with pytest.raises(MNNError):
            load_text(decoder, file, "model")
    assert used(decoder) == before


def test_fingerprints_tell_files_apart(tmp_path: Path) -> None:
    data = np.random.default_rng(2).integers(0, 256, 1 << 20, np.uint8)
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(data.tobytes())
    data[-1] ^= 1
    two.write_bytes(data.tobytes())
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    found = [fingerprint([f]) for f in (one, two, empty)] + [fingerprint([one], "4 bits"), fingerprint([one, two])]
    assert len(set(found)) == 5
    assert fingerprint([one, two]) == fingerprint([two, one])
    assert json.dumps(found)


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_conversation_makes_room_for_the_one_that_is_loaded(tmp_path: Path, family: str) -> None:
    decoder, file, prompt = fresh(family, 16), tmp_path / "text.cache", cases.tokens(3, 30 * PAGE)
    llm = LanguageModel(decoder, None, {}, tmp_path)  # type: ignore[arg-type]
    llm._whose = "model"
    decoder.feed(llm.conversation, prompt)
    llm.save_cache(file)
    others = decoder.text()
    for one in others.lists:
        one.grow((one.pool.free - 9) * PAGE)
    llm.load_cache(file)
    others.give_back(0)
    assert llm.conversation.tokens == prompt
    assert decoder.pools[-1].used == 30
