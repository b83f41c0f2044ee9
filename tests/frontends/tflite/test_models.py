"""Published models: what LiteRT gives, and the right answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import MNN
from MNN.converter import convert
from MNN.frontends import load_graph
from MNN.passes.manager import optimize
from tests import zoo
from tests.frontends.tflite.litert import Request, answers
from tests.harness import run_reference
from tests.models.media import picture, sound
from tests.models.tasks import basic_pitch

pytestmark = pytest.mark.real
CUSTOM = {"mediapipe_face_landmark_with_attention"}
"""Models with operators that only MediaPipe's own build of LiteRT has."""
KEYS = [
    k for p in zoo.packages() for k in p.keys if k.startswith(("mediapipe_", "wakeword_")) or k == "basic_pitch_tflite"
]
SIZES = {"wakeword_melspectrogram": [(1, 12400)]}
"""Of inputs whose sizes are open."""


def _inputs(key: str) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    shapes = SIZES.get(key) or [
        tuple(d if isinstance(d, int) else 1 for d in v.shape or ()) for v in load_graph(zoo.path(key)).inputs
    ]
    return [rng.random(shape).astype(np.float32) for shape in shapes]


@pytest.fixture(scope="module")
def wanted() -> dict[str, list[np.ndarray]]:
    requests = {k: Request(zoo.path(k).read_bytes(), [_inputs(k)]) for k in KEYS if k not in CUSTOM}
    found = answers(requests)
    assert not [a.error for a in found.values() if a.error]
    return {key: answer.outputs[0] for key, answer in found.items()}


@pytest.mark.parametrize("key", [k for k in KEYS if k not in CUSTOM])
def test_models_give_what_litert_gives(wanted: dict[str, list[np.ndarray]], key: str) -> None:
    """Where it is further away (some models make much of noise), LiteRT is further from numpy's results."""
    model, inputs = MNN.load(zoo.path(key), precision="high"), _inputs(key)
    found = model.run(dict(zip(model.inputs, inputs, strict=True)))
    ours = [found[name] for name in model.outputs]
    assert [y.shape for y in ours] == [y.shape for y in wanted[key]]
    if max(map(_apart, ours, wanted[key])) < 1e-4:
        return
    graph = load_graph(zoo.path(key))
    exact = run_reference(graph, dict(zip([v.name for v in graph.inputs], inputs, strict=True)))
    for name, own, theirs, right in zip(model.outputs, ours, wanted[key], map(np.asarray, exact), strict=True):
        assert _apart(own, right) < max(1e-4, _apart(theirs, right)), name


def _apart(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest difference, of the largest number."""
    wanted = wanted.astype(np.float64)
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-6))


@pytest.mark.parametrize("key", ["mediapipe_face_detection_short_range", "mediapipe_hand_landmark_full"])
def test_images_are_not_permuted_at_run_time(key: str) -> None:
    """But for the input, and what the file gives with channels last."""
    graph = load_graph(zoo.path(key))
    optimize(graph)
    count = sum(n.op == "Permute" for n in graph.nodes)
    assert count <= 1 + len(graph.outputs) * 2, count


def test_a_face_is_found() -> None:
    image = picture("picture_astronaut").resize((128, 128))
    pixels = np.asarray(image, np.float32)[None] / 127.5 - 1
    found = MNN.load(zoo.path("mediapipe_face_detection_short_range")).run({"input": pixels})
    scores = 1 / (1 + np.exp(-np.clip(found["classificators"].astype(np.float64).reshape(-1), -99, 99)))
    assert scores.max() == pytest.approx(0.92, abs=0.03)


def test_eyes_and_lips_refine_a_face() -> None:
    """The mesh with attention looks at crops around eyes and lips: those of the lips lie where the mesh has them."""
    face = picture("picture_astronaut").crop((130, 10, 310, 190)).resize((192, 192))
    model = MNN.load(zoo.path("mediapipe_face_landmark_with_attention"))
    found = model.run({"input_1": np.asarray(face, np.float32)[None] / 255})
    mesh, lips = found["output_mesh_identity"].reshape(-1, 3), found["output_lips"].reshape(-1, 2)
    presence = 1 / (1 + np.exp(-float(found["conv_faceflag"].reshape(-1)[0])))
    assert presence > 0.95
    corners = mesh[[61, 291], :2]
    nearest = [np.linalg.norm(lips - corner, axis=1).min() for corner in corners]
    assert max(nearest) < 8, nearest


def test_notes_are_heard() -> None:
    model = MNN.load(zoo.path("basic_pitch_tflite"))
    basic_pitch.check(lambda feeds: model.run(feeds))


def test_no_wake_word_is_heard_in_other_speech() -> None:
    """Sound to a spectrum, that to embeddings, those to the chance of a word."""
    mel, embed = (MNN.load(zoo.path(f"wakeword_{n}")) for n in ("melspectrogram", "embedding_model"))
    speech = (sound("speech_beckett", 16000)[: 16000 * 2] * 32767).astype(np.float32)[None]
    spectrum = next(iter(mel.run(dict(zip(mel.inputs, [speech], strict=True))).values()))
    frames = spectrum.reshape(-1, 32) / 10 + 2
    windows = np.stack([frames[i : i + 76] for i in range(0, len(frames) - 76, 8)])[:16, :, :, None]
    parts = [
        next(iter(embed.run(dict(zip(embed.inputs, [w[None]], strict=True))).values())).reshape(-1) for w in windows
    ]
    features = np.stack(parts)[None].astype(np.float32)
    assert features.shape == (1, 16, 96)
    for word in ("alexa", "hey_jarvis", "hey_mycroft", "hey_rhasspy", "okay_nabu"):
        model = MNN.load(zoo.path(f"wakeword_{word}"))
        chance = next(iter(model.run(dict(zip(model.inputs, [features], strict=True))).values()))
        assert float(chance.reshape(-1)[0]) < 0.07, word


@pytest.mark.parametrize("key", ["mediapipe_selfie_segmentation", "wakeword_hey_jarvis", "mediapipe_face_landmark"])
def test_a_converted_file_gives_the_same(key: str, tmp_path: Path) -> None:
    convert(zoo.path(key), tmp_path / "model.mnn")
    plain, written = MNN.load(zoo.path(key)), MNN.load(tmp_path / "model.mnn")
    assert list(plain.inputs) == list(written.inputs)
    feeds = dict(zip(plain.inputs, _inputs(key), strict=True))
    wanted, found = plain.run(feeds), written.run(feeds)
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=0, atol=1e-5 * float(np.abs(wanted[name]).max()))
