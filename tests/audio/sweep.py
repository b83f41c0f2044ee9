"""Random calls of ``MNN.audio`` beside PyMNN, librosa, torchaudio and kaldi-native-fbank:

python -m tests.audio.sweep --peer pymnn PYTHON --peer librosa PYTHON --peer kaldi PYTHON --seeds 0 200

Each PYTHON is an interpreter with that package, in an environment of its own. Answers that differ by more than 1e-4 of
the largest number are listed; the exit status says whether there were any.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

WINDOWS = {"HAMMING": "hamming", "HANNING": "hann", "BLACKMAN": "blackman"}
PADS = ("CONSTANT", "REFLECT", "SYMMETRIC", "EDGE")


class Call(NamedTuple):
    function: str
    wave: Any
    given: dict[str, Any]
    """Arguments as ``MNN.audio`` has them; kinds of windows and borders by their names."""
    seed: int


def calls(seed: int) -> Iterator[Call]:
    random = np.random.default_rng([seed, 404])
    count = int(random.integers(1200, 6000))
    time = np.arange(count) / 16000
    wave = np.sin(2 * np.pi * random.random() * 3000 * time * (1 + time)) * 0.4 + 0.1 * random.normal(size=count)
    wave = wave.astype(np.float32)
    n_fft = int(random.choice([128, 200, 256, 400, 512]))
    spectrum: dict[str, Any] = {
        "n_fft": n_fft, "hop_length": int(random.integers(20, n_fft)),
        "window_type": str(random.choice(["HAMMING", "HANNING", "BLACKMAN"])), "center": bool(random.integers(2)),
        "power": float(random.choice([1.0, 2.0])), "normalized": bool(random.integers(2)),
        "pad_mode": str(random.choice(PADS)),
    }  # fmt: skip
    low = float(random.choice([0.0, 20.0, 130.0]))
    mels: dict[str, Any] = {
        "n_mels": int(random.integers(5, 40)), "n_fft": n_fft, "sampe_rate": int(random.choice([8000, 16000, 22050])),
        "htk": bool(random.integers(2)), "norm": bool(random.integers(2)), "f_min": low,
        "f_max": float(random.choice([0.0, 3000.0])),
    }  # fmt: skip
    yield Call("spectrogram", wave, spectrum, seed)
    yield Call("spectrogram", wave, spectrum | {"win_length": n_fft - int(random.integers(0, 60))}, seed)
    padded = {"pad_left": int(random.integers(0, 90)), "pad_right": int(random.integers(0, 90)), "center": False}
    yield Call("spectrogram", wave, spectrum | padded, seed)
    yield Call("melscale_fbanks", None, mels, seed)
    yield Call("mel_spectrogram", wave, mels | spectrum, seed)
    for name in ("hamming_window", "hann_window"):
        yield Call(name, None, {"window_size": int(random.integers(2, 90)), "periodic": bool(random.integers(2))}, seed)
    yield Call("fbank", wave, {"n_mels": int(random.integers(10, 60)), "n_fft": int(random.choice([256, 400, 512])),
                               "hop_length": int(random.integers(80, 200))}, seed)  # fmt: skip
    if seed % 10 == 0:
        yield Call("whisper_fbank", wave, {"n_mels": int(random.choice([80, 128])), "chunk_len": 1}, seed)


def answer(audio: Any, call: Call) -> Any:
    """What ``MNN.audio`` gives here."""
    given = {k: getattr(audio, v) if isinstance(v, str) else v for k, v in call.given.items()}
    waves = () if call.wave is None else (call.wave,)
    return np.array(getattr(audio, call.function)(*waves, **given).read())


def by_pymnn(call: Call) -> Any:
    """The same by PyMNN 3.6.1; None where it fails (``power``, ``melscale_fbanks``, ``mel_spectrogram``,
    ``whisper_fbank``) or gives something else than it says: Hann's window for Blackman's, zeros for edges that go on,
    and frames of ``fbank`` that run on into the next one up to a power of two."""
    import _mnncengine.audio as native  # type: ignore[import-not-found]

    import MNN.audio
    import MNN.numpy

    g = {k: getattr(MNN.audio, v) if isinstance(v, str) else v for k, v in call.given.items()}
    wave = None if call.wave is None else MNN.numpy.array(call.wave)
    if call.function == "spectrogram" and (
        call.given["window_type"] == "BLACKMAN" or (g["center"] and call.given["pad_mode"] == "EDGE")
    ):
        return None
    if call.function == "spectrogram" and g["power"] == 2.0:
        found = native.spectrogram(
            wave, g["n_fft"], g["hop_length"], g.get("win_length", 0), g["window_type"], g.get("pad_left", 0),
            g.get("pad_right", 0), int(g["center"]), int(g["normalized"]), g["pad_mode"],
        )  # fmt: skip
    elif call.function == "fbank" and g["n_fft"] & (g["n_fft"] - 1) == 0:
        found = MNN.audio.fbank(wave, **g)
    elif call.function.endswith("window"):
        found = getattr(native, call.function)(*g.values())
    else:
        return None
    try:
        return np.array(found.read())
    except SystemError:  # what it cannot compute either
        return None


def by_librosa(call: Call) -> Any:
    """The same by librosa; None where it has no such thing."""
    import librosa  # type: ignore[import-not-found]
    import scipy.signal  # type: ignore[import-not-found]

    g = call.given
    if call.function == "melscale_fbanks":
        heights = None if g["htk"] and g["norm"] else "slaney"
        return librosa.filters.mel(
            sr=g["sampe_rate"], n_fft=g["n_fft"], n_mels=g["n_mels"], fmin=g["f_min"], fmax=g["f_max"] or None,
            htk=g["htk"], norm=heights, dtype=np.float64,
        )  # fmt: skip
    if call.function == "spectrogram" and g.get("win_length", g["n_fft"]) == g["n_fft"]:
        shape = scipy.signal.get_window(WINDOWS[g["window_type"]], g["n_fft"], fftbins=False)
        wave = np.pad(call.wave.astype(np.float64), (g.get("pad_left", 0), g.get("pad_right", 0)))
        found = np.abs(librosa.stft(wave, n_fft=g["n_fft"], hop_length=g["hop_length"], window=shape,
                                    center=g["center"], pad_mode=g["pad_mode"].lower())).T ** g["power"]  # fmt: skip
        return found / (shape**2).sum() if g["normalized"] else found
    return None


def by_torchaudio(call: Call) -> Any:
    """The same by torchaudio, in float64; None where it has no such thing."""
    import torch
    from torchaudio import functional as audio  # type: ignore[import-not-found]

    g = call.given
    if call.function == "melscale_fbanks":
        high, heights = g["f_max"] or g["sampe_rate"] / 2, None if g["htk"] and g["norm"] else "slaney"
        scale = "htk" if g["htk"] else "slaney"
        found = audio.melscale_fbanks(
            g["n_fft"] // 2 + 1, g["f_min"], high, g["n_mels"], g["sampe_rate"], heights, scale
        )
        return found.T.numpy()
    if call.function == "spectrogram" and g.get("win_length", g["n_fft"]) == g["n_fft"] and g["pad_mode"] == "REFLECT":
        make = {"HAMMING": torch.hamming_window, "HANNING": torch.hann_window, "BLACKMAN": torch.blackman_window}
        shape = make[g["window_type"]](g["n_fft"], periodic=False, dtype=torch.float64)
        wave = np.pad(call.wave.astype(np.float64), (g.get("pad_left", 0), g.get("pad_right", 0)))
        given = torch.from_numpy(wave), 0, shape, g["n_fft"], g["hop_length"], g["n_fft"], None, False, g["center"]
        found = audio.spectrogram(*given, "reflect")
        powered = found.abs().numpy().T ** g["power"]
        return powered / float((shape**2).sum()) if g["normalized"] else powered
    return None


def by_kaldi(call: Call) -> Any:
    """The same by kaldi-native-fbank; None where it has no such thing. Its spectra are of a power of two, its filters
    triangles over hertz only in librosa's form."""
    import kaldi_native_fbank as kaldi  # type: ignore[import-not-found]

    g, options = call.given, kaldi.FbankOptions()
    frames, mels, rate = options.frame_opts, options.mel_opts, g.get("sampe_rate", 16000)
    if call.function not in ("mel_spectrogram", "fbank") or g["n_fft"] & (g["n_fft"] - 1) or g.get("center"):
        return None
    mels.num_bins, mels.is_librosa, mels.low_freq, mels.high_freq = g["n_mels"], True, 20.0, 0.0
    mels.use_slaney_mel_scale, mels.norm, frames.window_type, options.use_log_fbank = False, "slaney", "hanning", False
    frames.dither, frames.samp_freq = 0.0, rate
    frames.frame_length_ms, frames.frame_shift_ms = ((g[n] + 0.1) * 1000 / rate for n in ("n_fft", "hop_length"))
    if call.function == "mel_spectrogram":
        frames.remove_dc_offset, frames.preemph_coeff = False, 0.0
        options.use_power, frames.window_type = g["power"] == 2.0, WINDOWS[g["window_type"]]
        frames.window_type = {"hann": "hanning"}.get(frames.window_type, frames.window_type)  # its "hann" is periodic
        mels.low_freq, mels.high_freq, mels.use_slaney_mel_scale = g["f_min"], g["f_max"], not g["htk"]
        mels.norm = "" if g["htk"] and g["norm"] else "slaney"
    try:
        stream = kaldi.OnlineFbank(options)
    except ValueError:  # filters so narrow that no frequency is in one
        return None
    stream.accept_waveform(rate, call.wave.tolist())
    stream.input_finished()
    found = np.array([stream.get_frame(i) for i in range(stream.num_frames_ready)])
    if g.get("normalized"):
        shape = {"hanning": np.hanning, "hamming": np.hamming, "blackman": np.blackman}[frames.window_type]
        found /= (shape(g["n_fft"]) ** 2).sum()
    return np.log(np.maximum(found, np.finfo(np.float32).tiny)) if call.function == "fbank" else found


def write(peer: str, file: str, first: int, last: int) -> None:
    """What a peer gives, by the number of the call."""
    found = {}
    for number, call in enumerate(c for seed in range(first, last) for c in calls(seed)):
        result = PEERS[peer](call)
        if result is not None:
            found[str(number)] = result
    np.savez(file, **found)


PEERS = {"pymnn": by_pymnn, "librosa": by_librosa, "torchaudio": by_torchaudio, "kaldi": by_kaldi}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", nargs=2, action="append", required=True, help="a package, an interpreter that has it")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 50))
    parser.add_argument("--write", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        return write(given.peer[0][0], given.write, *given.seeds)
    asked = [call for seed in range(*given.seeds) for call in calls(seed)]
    import MNN.audio

    ours = [answer(MNN.audio, call) for call in asked]
    wrong = 0
    for peer, python in given.peer:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "answers.npz")
            command = [python, "-W", "ignore", str(Path(__file__).resolve()), "--peer", peer, "-", "--write", file,
                       "--seeds", *map(str, given.seeds)]  # fmt: skip
            kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or peer in ("torchaudio", "kaldi")}
            subprocess.run(command, check=True, cwd=folder, env=kept)
            with np.load(file) as answers:
                wanted = {int(k): answers[k] for k in answers.files}
        for number, theirs in wanted.items():
            call, found = asked[number], ours[number]
            told = ""
            if found.shape != theirs.shape:
                told = f"shape {found.shape}, {theirs.shape} wanted"
            elif (apart := float(np.abs(found - theirs).max() / max(np.abs(theirs).max(), 1e-9))) > 1e-4:
                told = f"differs by {apart:.2g} of the largest"
            if told:
                wrong += 1
                print(f"{peer}: {call.function} {call.given} seed {call.seed}: {told}")
        print(f"{peer}: {len(wanted)} answers")
    print(f"{wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
