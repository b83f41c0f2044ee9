"""Pictures, sound and rendered text for task checks, read with Pillow and the standard library only."""

from __future__ import annotations

import wave

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from tests import zoo

FloatArray = npt.NDArray[np.float32]


def picture(key: str) -> Image.Image:
    """An RGB picture of the zoo."""
    with Image.open(zoo.path(key)) as image:
        return image.convert("RGB")


def sound(key: str, rate: int) -> FloatArray:
    """Mono sound of the zoo in -1..1 at ``rate`` samples a second; shape [samples]."""
    with wave.open(str(zoo.path(key))) as file:
        if file.getsampwidth() != 2 or file.getnchannels() != 1:
            raise ValueError(f"{key} is not 16-bit mono")
        data = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        source = file.getframerate()
    if source == rate:
        return data
    if source % rate:
        raise ValueError(f"{key} has {source} samples a second, not a multiple of {rate}")
    return _decimate(data, source // rate)


def _decimate(data: FloatArray, factor: int) -> FloatArray:
    """Low-pass by a Hann-windowed sinc at 0.9 of the new Nyquist frequency, then every ``factor``-th sample."""
    half = 16 * factor
    t = np.arange(-half, half + 1) / factor
    kernel = np.sinc(0.9 * t) * np.hanning(2 * half + 1)
    return np.convolve(data, kernel / kernel.sum(), "same")[::factor].astype(np.float32)


def tone(frequencies: tuple[float, ...], rate: int, samples: int, harmonics: int = 1) -> FloatArray:
    """Sum of steady tones, each with ``harmonics`` partials falling off as 1/n; shape [samples]."""
    t = np.arange(samples) / rate
    waves = [np.sin(2 * np.pi * f * n * t) / n for f in frequencies for n in range(1, harmonics + 1)]
    return (np.sum(waves, 0) * 0.5 / len(frequencies)).astype(np.float32)


def text_line(text: str, size: int = 36, margin: int = 8) -> Image.Image:
    """One line of black text on white, cut close."""
    font = ImageFont.truetype(str(zoo.path("font_dejavu")), size)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (int(right - left) + 2 * margin, int(bottom - top) + 2 * margin), "white")
    ImageDraw.Draw(image).text((margin - left, margin - top), text, "black", font)
    return image


def page(lines: list[str], size: tuple[int, int] = (640, 480), font_size: int = 32) -> Image.Image:
    """Lines of text under one another on a white page of ``size`` (width, height)."""
    font = ImageFont.truetype(str(zoo.path("font_dejavu")), font_size)
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for k, line in enumerate(lines):
        draw.text((40, 40 + k * 3 * font_size), line, "black", font)
    return image
