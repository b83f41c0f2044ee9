"""WAV files: whole numbers of 8 to 32 bits and floats; read, resampled, written."""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from MNN.audio._resampling import resample
from MNN.audio._spectrum import Array, var
from MNN.errors import FormatError, MNNError
from MNN.expr.build import to_var
from MNN.expr.var import Var
from MNN.schema.files import open_regular, path_of, replacing

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE


def load(filename: str | os.PathLike[str], sr: int = 0, frame_offset: int = 0, num_frames: int = -1) -> tuple[Var, int]:
    """The samples of a WAV file, from ``frame_offset`` on and at most ``num_frames`` (all if negative), and their rate.

    float32 from -1 to 1, several channels as their mean. ``sr`` above 0 resamples to that rate first (a windowed sinc).
    Of a file that ends within its samples those that are there are read. Raises :class:`FormatError` for files that are
    no WAV files or end before their samples, ``MNNError`` for what cannot be opened."""
    with open_regular(path_of(filename)) as file:
        data = file.read()
    kind, channels, rate, bits, body = _parts(data, str(filename))
    samples = _samples(body, kind, bits, str(filename))
    wave = samples[: len(samples) // channels * channels].reshape(-1, channels).mean(1)
    if sr < 0 or frame_offset < 0:
        raise MNNError(f"load(): sr {sr} and frame_offset {frame_offset} must not be negative")
    if sr and sr != rate:
        wave, rate = resample(wave, rate, sr), sr
    end = None if num_frames < 0 else frame_offset + num_frames
    return var(wave[frame_offset:end]), rate


def _parts(data: bytes, name: str) -> tuple[int, int, int, int, bytes]:
    """Encoding, channels, rate, bits and samples of a RIFF file."""
    if len(data) < 12 or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise FormatError(f"{name} is no WAV file; convert it (ffmpeg -i {name} out.wav)")
    place, form = 12, None
    while place + 8 <= len(data):
        tag, size = data[place : place + 4], struct.unpack_from("<I", data, place + 4)[0]
        body = data[place + 8 : place + 8 + size]
        if tag == b"fmt ":
            if len(body) < 16:
                raise FormatError(f"{name}: its format has {len(body)} bytes, at least 16 are needed")
            kind, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", body)
            kind = struct.unpack_from("<H", body, 24)[0] if kind == _EXTENSIBLE and len(body) >= 26 else kind
            form = kind, channels, rate, bits
        elif tag == b"data":
            if form is None or not form[1] or not form[2]:
                raise FormatError(f"{name}: samples without a format, or of no channel or rate")
            return (*form, body)
        place += 8 + size + (size & 1)
    raise FormatError(f"{name} ends before its samples")


def _samples(body: bytes, kind: int, bits: int, name: str) -> Array:
    if kind == _FLOAT and bits in (32, 64):
        width = bits // 8
        return np.frombuffer(body[: len(body) // width * width], f"<f{width}").astype(np.float64)
    if kind != _PCM or bits not in (8, 16, 24, 32):
        raise FormatError(f"{name}: encoding {kind} of {bits} bits is not read; convert it to 16 bits")
    if bits == 8:
        return (np.frombuffer(body, np.uint8).astype(np.float64) - 128) / 128
    width = bits // 8
    raw = np.frombuffer(body[: len(body) // width * width], np.uint8).reshape(-1, width)
    wide = np.zeros((len(raw), 4), np.uint8)
    wide[:, 4 - width :] = raw
    return wide.view("<i4")[:, 0].astype(np.float64) / 2.0**31


def save(filename: str | os.PathLike[str], audio: ArrayLike, sample_rate: int) -> bool:
    """Writes samples from -1 to 1, (count,) or (count, channels), as a WAV file of 16 bits; whole or not at all."""
    array = np.asarray(to_var(audio)._array(), np.float64)
    array = array[:, None] if array.ndim == 1 else array
    fits = isinstance(sample_rate, (int, np.integer)) and array.ndim == 2 and 0 < array.shape[1] < 1 << 15
    if not fits or not 0 < int(sample_rate) * array.shape[1] < 1 << 31:
        raise MNNError(f"save(): samples (count,) or (count, channels) and a rate, found {array.shape}, {sample_rate}")
    if array.size >= (1 << 31) - 18:
        raise MNNError(f"save(): a WAV file has at most 4 GiB, found {array.size} samples of two bytes")
    if np.isnan(array).any():
        raise MNNError("save(): samples are from -1 to 1, found NaN")
    body: Any = np.clip(np.rint(array * 32768), -32768, 32767).astype("<i2").tobytes()
    channels = array.shape[1]
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(body), b"WAVE", b"fmt ", 16, _PCM, channels, sample_rate,
        sample_rate * channels * 2, channels * 2, 16, b"data", len(body),
    )  # fmt: skip
    with replacing(filename) as file:
        file.write(head + body)
    return True
