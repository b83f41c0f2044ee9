"""Families of operations (``keras.ops``), of spectra, and of models within models; see :mod:`tests.keras.families`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.keras.families import Rng, family, layers, ops, pick, some


@family("OperationsInPairs")
def pairs(rng: Rng) -> Any:
    x, y, i, j = (
        keras.Input((4, 6)),
        keras.Input((4, 6)),
        keras.Input((4,), dtype="int32"),
        keras.Input((4,), dtype="int32"),
    )
    found = [f(x, y) for f in (ops.fmax, ops.fmin, ops.fmod, ops.hypot, ops.logaddexp, ops.logaddexp2, ops.heaviside)]
    found += [f(i, j) for f in (ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor, ops.left_shift, ops.right_shift)]
    found += [ops.isclose(x, x + 1e-9), ops.bitwise_not(i), ops.outer(x[0], y[0]), ops.vdot(x, y), ops.inner(x, y)]
    axes = pick(rng, [[1, 2], [1, 2]], [[2], [2]], [[2, 0], [2, 0]])
    found += [
        ops.tensordot(x, y, axes=axes),
        ops.cross(x[..., :3], y[..., 1:4]),
        ops.select([x > 0, y > 0], [x, y], 0.5),
    ]
    return keras.Model([x, y, i, j], found)


@family("OperationsOneByOne")
def one_by_one(rng: Rng) -> Any:
    x = keras.Input((4, 6))
    ones = (ops.cbrt, ops.sinc, ops.signbit, ops.isposinf, ops.isneginf, ops.nan_to_num, ops.glu, ops.hard_shrink)
    found = [f(x) for f in (*ones, ops.soft_shrink, ops.squareplus)]
    found += [ops.threshold(x, 0.1, some(rng, -2, 2)), ops.full_like(x, 2.0), ops.round(x, some(rng, 1, 2))]
    found += [
        ops.digitize(x, np.array([-0.5, 0.0, 0.5])),
        ops.normalize(x, axis=1, order=1),
        ops.count_nonzero(x > 0, 1),
    ]
    found += [ops.average(x, axis=1), ops.average(x, axis=2, weights=np.arange(1.0, 7.0)), *ops.moments(x, [1])]
    found += [ops.median(x, axis=pick(rng, 1, 2)), ops.quantile(x, 0.3, axis=(1, 2), keepdims=True)]
    found += [ops.layer_normalization(x), ops.rms_normalization(x), ops.norm(x, axis=1), ops.norm(x, ord=3, axis=2)]
    return keras.Model(x, found)


@family("OperationsOnParts")
def parts(rng: Rng) -> Any:
    x = keras.Input((4, 6))
    found = [ops.sort(x, axis=1), ops.argsort(x, axis=-1), ops.take_along_axis(x, ops.argsort(x, axis=1), axis=1)]
    found += [ops.diagonal(x, some(rng, -2, 2), 1, 2), ops.trace(x, axis1=1, axis2=2), ops.diff(x, n=2, axis=1)]
    found += [
        ops.tril(x, k=some(rng, -1, 1)),
        ops.triu(x, k=1),
        ops.rot90(x[..., :4], some(rng, 1, 3), (1, 2)),
        ops.fliplr(x),
    ]
    found += [
        ops.hstack([x, x]),
        ops.vstack([x, x]),
        *ops.array_split(x, 4, axis=2),
        ops.slice(x, (0, 1, 2), (3, 2, 3)),
    ]
    found += [ops.scatter_update(x, [[0, 1], [1, 2]], np.ones((2, 6), np.float32)), ops.repeat(x, [1, 2, 0, 1], axis=1)]
    found += [ops.one_hot(ops.argmax(x, 1), 4, axis=1), ops.cast(ops.size(x[0]), "float32") * x]
    return keras.Model(x, found)


@family("OperationsOverWindows")
def windows(rng: Rng) -> Any:
    x, q = keras.Input((6, 7, 3)), keras.Input((5, 4, 2))
    kernel = rng.normal(0, 1, (3, 2, 3, 4)).astype(np.float32)
    padding, stride = pick(rng, "same", "valid"), some(rng, 1, 2)
    found = [ops.conv(x, kernel, stride, padding), ops.depthwise_conv(x, kernel[..., :1], stride, padding)]
    found += [ops.average_pool(x, 2, stride, padding), ops.max_pool(x, 3, stride, padding)]
    found += [ops.image.extract_patches(x, (3, 2), padding=padding), ops.image.rgb_to_grayscale(x)]
    found += [ops.batch_normalization(x, np.arange(3.0).astype("float32"), np.full(3, 2, "float32"), -1)]
    found += [ops.dot_product_attention(q, q[:, :, :2], q[:, :, 2:], is_causal=bool(rng.integers(2)))]
    return keras.Model([x, q], found)


@family("AdaptivePooling")
def adaptive_pooling(rng: Rng) -> Any:
    """Of one size: TensorFlow divides by nought where some others are asked for."""
    given = keras.Input((7, 9, 3))
    kinds = (layers.AdaptiveMaxPooling2D, layers.AdaptiveAveragePooling2D)
    return keras.Model(given, [kind((3, 4))(given) for kind in kinds])


@family("Spectra")
def spectra(rng: Rng) -> Any:
    x = keras.Input((300,))
    mel = layers.MelSpectrogram(
        64, 32, num_mel_bins=10, sampling_rate=1000, max_freq=400, power_to_db=bool(rng.integers(2))
    )
    modes = [pick(rng, "log", "magnitude"), pick(rng, "psd", "stft"), pick(rng, "real", "imag")]
    sound = keras.ops.expand_dims(x, -1)
    found = [
        layers.STFTSpectrogram(mode, 64, 32, 64, scaling=pick(rng, "density", "spectrum"))(sound) for mode in modes
    ]
    pair = ops.rfft(x)
    return keras.Model(
        x, [mel(x), *found, *ops.stft(x, 48, 16, 64, pick(rng, "hann", "hamming")), *pair, ops.irfft(pair)]
    )


@family("ResizingMethods")
def resizing_methods(rng: Rng) -> Any:
    x = keras.Input((some(rng, 5, 12), some(rng, 5, 12), 3))
    sizes = [(some(rng, 4, 14), some(rng, 4, 14)) for _ in range(4)]
    found = [layers.Resizing(*sizes[0], pick(rng, "lanczos3", "lanczos5")), layers.Resizing(*sizes[1], antialias=True)]
    found += [
        layers.Resizing(*sizes[2], crop_to_aspect_ratio=True),
        layers.Resizing(*sizes[3], pad_to_aspect_ratio=True),
    ]
    return keras.Model(x, [f(x) for f in (*found, layers.CenterCrop(some(rng, 3, 14), some(rng, 3, 14)))])


@family("CallsOfModels")
def calls_of_models(rng: Rng) -> Any:
    """Outputs that are of one call of a model or the other, and a layer that lies in two models."""
    given = keras.Input((6,))
    block = keras.Model(given, layers.LayerNormalization()(layers.Dense(6, activation="tanh")(given)), name="block")
    row = keras.Sequential([block, layers.Dense(6)], name="row")
    second = keras.Input((6,))
    inner = keras.Model(second, [row(second), block(second)], name="inner")
    x = keras.Input((6,))
    first, last = inner(x), inner(x * 0.5)
    again = inner(last[0])
    return keras.Model(x, [again[1], first[1], last[1], first[0]])


@family("AttentionOverAxes")
def attention_over_axes(rng: Rng) -> Any:
    x, y = keras.Input((3, 4, 6)), keras.Input((5, 8))
    axes = pick(rng, (1,), (2,), (1, 2), None)
    windowed = layers.GroupQueryAttention(3, 4, 2, sliding_window=some(rng, 1, 3))
    found = [
        layers.MultiHeadAttention(2, 3, attention_axes=axes)(x, x),
        windowed(y, y, use_causal_mask=bool(rng.integers(2))),
    ]
    return keras.Model([x, y], found)


@family("Vocabulary")
def vocabulary(rng: Rng) -> Any:
    words = keras.Input((4,), dtype="int64")
    lookups = [layers.IntegerLookup(vocabulary=[1, 5, 0], output_mode=mode) for mode in ("int", "multi_hot", "count")]
    lookups.append(layers.IntegerLookup(vocabulary=[1, 5, 2], mask_token=0))
    table = layers.ReversibleEmbedding(11, 6, tie_weights=bool(rng.integers(2)), logit_soft_cap=pick(rng, None, 2.0))
    places = keras.Input((4,), dtype="int32")
    return keras.Model([words, places], [*(f(words) for f in lookups), table(table(places), reverse=True)])


@family("MaskedVocabulary")
def masked_vocabulary(rng: Rng) -> Any:
    """What is masked has a place of its own, or none where places are counted."""
    words, one = keras.Input((4,), dtype="int64"), keras.Input((1,), dtype="int64", name="one")
    modes = [("int", words), ("multi_hot", words), ("count", words), ("one_hot", one)]
    return keras.Model(
        [words, one], [layers.IntegerLookup(vocabulary=[2, 5], mask_token=0, output_mode=m)(x) for m, x in modes]
    )


@family("MixedBfloat16")
def mixed_bfloat16(rng: Rng) -> Any:
    """Variables that are bfloat16 in the file."""
    given = keras.Input((6,))
    x = layers.Dense(5, dtype="bfloat16", activation="relu")(given)
    return keras.Model(given, layers.Dense(3, dtype="float32")(x))
