"""Windows, spectra, features and files of sounds: against librosa's answers and against formulas written out."""

from __future__ import annotations

import math
import struct
import wave as pywave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from MNN import MNNError, audio
from MNN.audio import _resampling, _spectrum
from tests.audio.record import FILE, FILTERS, SPECTRA, wave

KINDS = {"hann": audio.HANNING, "hamming": audio.HAMMING, "blackman": audio.BLACKMAN}


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    with np.load(FILE) as file:
        return dict(file)


@pytest.mark.parametrize("case", range(len(FILTERS)))
def test_mel_filters(case: int, expected: dict[str, Any]) -> None:
    mels, n, rate, low, high = FILTERS[case]
    for htk, norm, theirs in ((False, True, "False slaney"), (False, False, "False slaney"), (True, True, "True None"),
                              (True, False, "True slaney")):  # fmt: skip
        found = audio.melscale_fbanks(mels, n, rate, htk, norm, low, high).read()
        np.testing.assert_allclose(found, expected[f"mel {case} {theirs}"], atol=1e-4)


@pytest.mark.parametrize("case", range(len(SPECTRA)))
def test_spectrogram(case: int, expected: dict[str, Any]) -> None:
    n, hop, length, kind, center, power = SPECTRA[case]
    wanted = expected[f"spectrum {case}"]
    found = audio.spectrogram(wave(), n, hop, length, KINDS[kind], center=center, power=power).read()
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
    scaled = audio.spectrogram(wave(), n, hop, length, KINDS[kind], center=center, power=power, normalized=True)
    ratio = found.sum() / scaled.read().sum()
    turns = 2 * np.pi * np.arange(n) / (n - 1)
    if kind == "hann":
        assert ratio == pytest.approx(((0.5 - 0.5 * np.cos(turns)) ** 2).sum(), rel=1e-4)


def test_mel_spectrogram_is_spectrum_times_filters() -> None:
    found = audio.mel_spectrogram(wave(), 30, 512, hop_length=160).read()
    spectrum = audio.spectrogram(wave(), 512, 160).read()
    filters = audio.melscale_fbanks(30, 512).read()
    np.testing.assert_allclose(found, spectrum @ filters.T, rtol=1e-4, atol=1e-6)


def test_windows() -> None:
    np.testing.assert_allclose(audio.hamming_window(5).read(), [0.08, 0.54, 1, 0.54, 0.08], atol=1e-6)
    np.testing.assert_allclose(audio.hanning_window(4, True).read(), [0, 0.5, 1, 0.5], atol=1e-6)
    np.testing.assert_allclose(audio.hann_window(5).read(), np.hanning(5), atol=1e-6)
    np.testing.assert_allclose(audio.hamming_window(5, alpha=0.6, beta=0.3).read()[0], 0.3, atol=1e-6)
    one = [audio.spectrogram(wave(), 64, window_type=k).read() for k in (audio.POVEY, audio.RECTANGULAR)]
    frame = wave()[:64].astype(np.float64)
    for found, shape in zip(one, (np.hanning(64) ** 0.85, np.ones(64)), strict=True):
        np.testing.assert_allclose(found[0], np.abs(np.fft.rfft(frame * shape)) ** 2, rtol=1e-3, atol=1e-4)


def test_fbank() -> None:
    """Frame by frame, and bin by bin."""
    w = wave().astype(np.float64)
    found = audio.fbank(w, n_mels=23).read()
    assert found.shape == (1 + (4000 - 400) // 160, 23)
    filters = audio.melscale_fbanks(23, 512, f_min=20.0).read().astype(np.float64)
    for row in (0, 7, len(found) - 1):
        frame = w[160 * row : 160 * row + 400]
        frame = frame - frame.mean()
        frame = np.array([s - 0.97 * frame[max(i - 1, 0)] for i, s in enumerate(frame)])
        wide = np.append(frame, np.zeros(112)) * np.hanning(512)
        turns = np.exp(-2j * np.pi * np.outer(np.arange(257), np.arange(512)) / 512)
        np.testing.assert_allclose(found[row], np.log(filters @ np.abs(turns @ wide) ** 2), atol=1e-4)


def test_whisper_fbank(expected: dict[str, Any]) -> None:
    found = audio.whisper_fbank(wave(), n_mels=20, chunk_len=1).read()
    assert found.shape == (1, 20, 100)
    padded = np.pad(np.append(wave(), np.zeros(12000)), 200, "reflect")
    filters = expected["mel 0 False slaney"].astype(np.float64)
    frames = np.stack([padded[160 * i : 160 * i + 400] for i in range(100)])
    mels = filters @ (np.abs(np.fft.rfft(frames * np.hanning(400))) ** 2).T
    logs = np.log10(np.maximum(mels, 1e-10))
    np.testing.assert_allclose(found[0], (np.maximum(logs, logs.max() - 8) + 4) / 4, atol=1e-4)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    assert audio.save(path, wave(), 16000)
    with pywave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes()) == (1, 2, 16000, 4000)
    found, rate = audio.load(path)
    assert rate == 16000
    np.testing.assert_allclose(found.read(), wave(), atol=2 / 32768)
    part, _ = audio.load(path, 0, 100, 50)
    np.testing.assert_array_equal(part.read(), found.read()[100:150])
    audio.save(path, np.stack([wave(), -wave()], 1), 8000)
    np.testing.assert_allclose(audio.load(path)[0].read(), 0, atol=2 / 32768)


@pytest.mark.parametrize(("kind", "bits"), [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64), (0xFFFE, 16)])
def test_encodings(kind: int, bits: int, tmp_path: Path) -> None:
    values = np.array([0.5, -0.25, 0.0, -1.0])
    if 3 in (kind,):
        body = values.astype(f"<f{bits // 8}").tobytes()
    elif bits == 8:
        body = (values * 128 + 128).astype(np.uint8).tobytes()
    else:
        body = b"".join(int(v * 2 ** (bits - 1)).to_bytes(bits // 8, "little", signed=True) for v in values)
    form = struct.pack("<HHIIHH", kind, 1, 8000, 8000 * bits // 8, bits // 8, bits)
    form += struct.pack("<HHIH", 22, bits, 4, 1) + bytes(14) if kind == 0xFFFE else b""
    chunks = b"LIST" + struct.pack("<I", 3) + b"abc\0" + b"fmt " + struct.pack("<I", len(form)) + form
    chunks += b"data" + struct.pack("<I", len(body)) + body
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks)
    np.testing.assert_allclose(audio.load(tmp_path / "a.wav")[0].read(), values, atol=1e-6)


@pytest.mark.parametrize("wanted", [8000, 22050, 44100, 12345])
def test_resampling_keeps_tones(wanted: int, tmp_path: Path) -> None:
    rate, tone = 16000, 1000
    audio.save(tmp_path / "a.wav", np.sin(2 * np.pi * tone * np.arange(rate // 4) / rate) * 0.9, rate)
    found, new = audio.load(tmp_path / "a.wav", wanted)
    assert new == wanted
    assert abs(found.size - wanted / 4) <= 1
    times = np.arange(found.size) / wanted
    inner = slice(found.size // 5, -found.size // 5)
    np.testing.assert_allclose(found.read()[inner], (0.9 * np.sin(2 * np.pi * tone * times))[inner], atol=1e-3)


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    path = tmp_path / "bad.wav"
    for data in (
        b"",
        b"RIFF1234WAVE",
        b"RIFF1234WAVEdata\4\0\0\0abcd",
        b"RIFF1234WAVEfmt \4\0\0\0abcd",
        b"RIFF1234WAVEfmt \x10\0\0\0" + struct.pack("<HHIIHH", 2, 1, 8000, 8000, 1, 4) + b"data\0\0\0\0",
        b"RIFF1234WAVEfmt \x10\0\0\0" + struct.pack("<HHIIHH", 1, 0, 8000, 8000, 1, 8) + b"data\0\0\0\0",
    ):
        path.write_bytes(data)
        with pytest.raises(MNNError, match=r"bad\.wav"):
            audio.load(path)
    bad: list[Any] = [
        lambda: audio.spectrogram(wave()[:10]), lambda: audio.spectrogram(wave(), window_type=9),
        lambda: audio.spectrogram(np.zeros((2, 300))), lambda: audio.fbank(wave()[:10]), lambda: audio.hann_window(0),
        lambda: audio.melscale_fbanks(0, 400), lambda: audio.whisper_fbank(wave(), hop_length=0),
        lambda: audio.melscale_fbanks(8, 400, f_min=5000.0, f_max=5000.0),
        lambda: audio.melscale_fbanks(8, 400, f_min=-800.0), lambda: audio.save(path, [0.0], 8000.5),
        lambda: audio.load(tmp_path / "none.wav"), lambda: audio.load(tmp_path), lambda: audio.load(3),
        lambda: audio.save(path, [0.0, np.nan], 8000), lambda: audio.save(path, np.zeros((2, 40000)), 8000),
        lambda: audio.save(path, np.zeros((2, 2, 2)), 8000), lambda: audio.spectrogram(wave()[:100], center=True),
    ]  # fmt: skip
    for call in bad:
        with pytest.raises(MNNError):
            call()


def test_resampling_by_blocks_is_the_sum_over_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn rates, lengths and blocks beside the sinc under Kaiser's window, output by output."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        rate, wanted = (int(n) for n in rng.integers(1, 60, 2))
        samples = rng.normal(size=int(rng.integers(1, 300)))
        monkeypatch.setattr(_resampling, "BLOCK", int(rng.choice([1, 500, 5000, 1 << 18])))
        found = _resampling.resample(samples, rate, wanted)
        cutoff = min(1.0, wanted / rate)
        reach = math.ceil(32 / cutoff)
        places, numbers = np.arange(-(-len(samples) * wanted // rate))[:, None] * rate, np.arange(len(samples))
        apart = places / wanted - numbers
        kaiser = np.i0(12 * np.sqrt(np.maximum(1 - (apart / (reach + 1)) ** 2, 0))) / np.i0(12)
        taken = np.abs(places // wanted - numbers) <= reach
        weights = np.where(taken, cutoff * np.sinc(cutoff * apart) * kaiser, 0)
        np.testing.assert_allclose(found, weights @ samples, atol=1e-8)


def test_rates_that_no_sound_has(tmp_path: Path) -> None:
    """A file's rate decides neither how much memory is taken nor for how long."""
    path = tmp_path / "a.wav"
    for rate, wanted in ((4294967291, 16000), (4294967291, 1), (1, 4294967291), (1, 10**12)):
        form = b"fmt \x10\0\0\0" + struct.pack("<HHIIHH", 1, 1, rate, 0, 2, 16)
        path.write_bytes(b"RIFF1234WAVE" + form + b"data\x14\0\0\0" + bytes(20))
        if rate > wanted:
            assert audio.load(path, wanted)[0].size == 1
        else:
            with pytest.raises(MNNError, match=rf"10 samples of 1 Hz would be {10 * wanted} .* is the file's rate"):
                audio.load(path, wanted)


def test_frames_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = (
        lambda: audio.fbank(wave()), lambda: audio.spectrogram(wave(), 64, 7, 50, power=1.0, normalized=True),
        lambda: audio.mel_spectrogram(wave(), 10, 64, center=True),
    )  # fmt: skip
    whole = [call().read() for call in calls]
    monkeypatch.setattr(_spectrum, "BLOCK", 1000)
    for call, wanted in zip(calls, whole, strict=True):
        np.testing.assert_allclose(call().read(), wanted, rtol=1e-6, atol=1e-6)
    with pytest.raises(MNNError, match="a window of 1 sample is zero, and cannot be normalized by"):
        audio.spectrogram(wave(), 64, win_length=1, normalized=True)
    with pytest.raises(MNNError, match="power inf is out of range"):
        audio.spectrogram(wave(), power=float("inf"))
