"""Families of layers over sequences: embeddings, recurrent layers and attention; see :mod:`tests.keras.families`."""

from __future__ import annotations

from typing import Any

import keras

from tests.keras.families import Rng, chain, family, layers, ops, pick, some


@family("Embedding")
def embedding(rng: Rng) -> Any:
    words = keras.Input((some(rng, 2, 6),), dtype="int32")
    return chain(words, layers.Embedding(20, 4))


def steps(rng: Rng) -> Any:
    return keras.Input((None if rng.integers(2) else 6, some(rng, 2, 4)))


def recurrent_options(rng: Rng, name: str) -> dict[str, Any]:
    options = {
        "return_sequences": bool(rng.integers(2)),
        "go_backwards": bool(rng.integers(2)),
        "use_bias": bool(rng.integers(4)),
        "activation": pick(rng, "tanh", "tanh", "relu"),
    }
    if name != "SimpleRNN":
        options["recurrent_activation"] = pick(rng, "sigmoid", "sigmoid", "hard_sigmoid")
    return options | ({"reset_after": bool(rng.integers(2))} if name == "GRU" else {})


@family("LSTM", "GRU", "SimpleRNN")
def recurrent(rng: Rng, name: str) -> Any:
    layer = getattr(layers, name)(some(rng, 2, 5), return_state=bool(rng.integers(2)), **recurrent_options(rng, name))
    return chain(steps(rng), layer)


@family("MaskedLSTM", "MaskedGRU", "MaskedSimpleRNN")
def masked(rng: Rng, name: str) -> Any:
    """Masks with holes, from an embedding or from numbers."""
    kind = name.removeprefix("Masked")
    layer = getattr(layers, kind)(3, return_state=bool(rng.integers(2)), **recurrent_options(rng, kind))
    if rng.integers(2):
        return chain(keras.Input((7,), dtype="int32"), layers.Embedding(4, 3, mask_zero=True), layer)
    given = keras.Input((7, 3))
    gated = given * ops.cast(ops.abs(given[:, :, :1]) > 0.5, "float32")
    return keras.Model(given, layer(layers.Masking()(gated)))


@family("CellsOfAnyActivation")
def any_activation(rng: Rng) -> Any:
    """Activations that no recurrent operator has, over few and many steps, with masks and without, there and back."""
    given = keras.Input((pick(rng, 7, None), 3))
    x = layers.Masking()(given * ops.cast(ops.abs(given[:, :, :1]) > 0.5, "float32")) if rng.integers(2) else given
    found = []
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        options = recurrent_options(rng, kind) | {
            "activation": pick(rng, "gelu", "silu", "softmax", "relu6", "log_sigmoid"),
            "return_sequences": True,
        }
        if kind != "SimpleRNN" and rng.integers(2):
            options["recurrent_activation"] = pick(rng, "hard_silu", "selu", "softmax")
        found.append(getattr(layers, kind)(some(rng, 1, 4), **options)(x))
    return keras.Model(given, found)


@family("Bidirectional", "MaskedBidirectional")
def bidirectional(rng: Rng, name: str) -> Any:
    kind = pick(rng, "LSTM", "GRU", "SimpleRNN")
    options = recurrent_options(rng, kind) | {"go_backwards": False}
    layer = layers.Bidirectional(
        getattr(layers, kind)(3, return_state=bool(rng.integers(2)), **options),
        merge_mode=pick(rng, "concat", "sum", "ave", "mul", None),
    )
    if name == "Bidirectional":
        return chain(steps(rng), layer)
    return chain(keras.Input((6,), dtype="int32"), layers.Embedding(3, 3, mask_zero=True), layer)


@family("RNN")
def cells(rng: Rng) -> Any:
    cell = [layers.LSTMCell(3), layers.GRUCell(2, reset_after=False), layers.SimpleRNNCell(4)]
    return chain(steps(rng), layers.RNN(cell, return_sequences=bool(rng.integers(2)), return_state=True))


@family("InitialState")
def initial_state(rng: Rng) -> Any:
    given, first = keras.Input((5, 3)), keras.Input((4,))
    _, h, c = layers.LSTM(4, return_state=True)(given)
    out = layers.LSTM(4, return_sequences=True)(given, initial_state=[h, c])
    return keras.Model([given, first], layers.GRU(4)(out, initial_state=first))


@family("TimeDistributed")
def time_distributed(rng: Rng) -> Any:
    inner = pick(rng, lambda: layers.Dense(3), lambda: layers.Conv2D(2, 3), lambda: layers.Flatten())()
    flat = isinstance(inner, layers.Dense) and rng.integers(2)
    given = keras.Input((pick(rng, None, 4), 5)) if flat else keras.Input((pick(rng, None, 3), 5, 6, 2))
    return chain(given, layers.TimeDistributed(inner))


@family("MultiHeadAttention", "GroupQueryAttention")
def multi_head(rng: Rng, name: str) -> Any:
    query, value = keras.Input((5, 8)), keras.Input((pick(rng, None, 6), 8 if name[0] == "G" else 7))
    heads = some(rng, 1, 2) * 2
    if name == "GroupQueryAttention":
        layer = layers.GroupQueryAttention(4, heads, 2)
    else:
        more = {"value_dim": 3, "output_shape": 6} if rng.integers(2) else {}
        layer = layers.MultiHeadAttention(heads, 4, use_bias=bool(rng.integers(2)), **more)
    cross = layer(query, value)
    own = layers.MultiHeadAttention(2, 3)(query, query, use_causal_mask=True)
    return keras.Model([query, value], [cross, own])


@family("MaskedAttention")
def masked_attention(rng: Rng) -> Any:
    words = keras.Input((6,), dtype="int32")
    x = layers.Embedding(3, 4, mask_zero=True)(words)
    return keras.Model(words, [layers.MultiHeadAttention(2, 3)(x, x), layers.Attention()([x, x])])


@family("Attention", "AdditiveAttention")
def attention(rng: Rng, name: str) -> Any:
    query, value = keras.Input((4, 5)), keras.Input((6, 5))
    options = {"use_scale": bool(rng.integers(2))}
    if name == "Attention":
        options["score_mode"] = pick(rng, "dot", "concat")
    out = getattr(layers, name)(**options)([query, value], use_causal_mask=bool(rng.integers(2)))
    return keras.Model([query, value], out)


@family("EinsumDense")
def einsum_dense(rng: Rng) -> Any:
    layer = layers.EinsumDense("abc,cde->abde", (None, 3, 2), bias_axes=pick(rng, None, "de"), activation="relu")
    return chain(keras.Input((4, 5)), layer)


@family("MaskedMerge")
def masked_merge(rng: Rng) -> Any:
    """Sequences of two lengths joined by every layer that joins: each has its own rule for steps that do not count."""
    words = [keras.Input((6,), dtype="int32") for _ in range(2)]
    plain = keras.Input((6, 4))
    embedding = layers.Embedding(3, 4, mask_zero=True)
    both = [embedding(w) for w in words]
    kinds = (layers.Multiply, layers.Maximum, layers.Minimum, layers.Add, layers.Subtract, layers.Average)
    found = [layers.GlobalAveragePooling1D()(kind()(both)) for kind in kinds]
    found += [kind()([both[0], plain]) for kind in kinds]
    return keras.Model([*words, plain], found)


@family("MaskedStates")
def masked_states(rng: Rng) -> Any:
    """A layer that is given first states is not handed the mask of its sequence, but what follows it is."""
    words = [keras.Input((6,), dtype="int32") for _ in range(2)]
    embedding = layers.Embedding(3, 4, mask_zero=True)
    _, *states = layers.LSTM(4, return_state=True)(embedding(words[0]))
    second = layers.LSTM(4, return_sequences=True)(embedding(words[1]), initial_state=states)
    both = layers.Bidirectional(layers.GRU(4, return_sequences=True))(second, initial_state=states)
    return keras.Model(words, [second, layers.GRU(3)(second), layers.GlobalAveragePooling1D()(both)])


@family("MasksBehindAttention")
def masks_behind_attention(rng: Rng) -> Any:
    """Attention of several heads takes the masks off what it is given, for all that is called later."""
    words = keras.Input((6,), dtype="int32")
    x = layers.Embedding(3, 4, mask_zero=True)(words)
    attended = layers.Add()([x, layers.MultiHeadAttention(2, 3)(x, x)])
    scored = layers.AdditiveAttention()([attended, attended])
    early = x
    for _ in range(4):  # as far from the outputs as to be called first
        early = layers.Dense(4, activation="tanh")(early)
    shared = layers.Dense(3)
    pooled = [layers.GlobalAveragePooling1D()(v) for v in (attended, early, shared(early), shared(x))]
    return keras.Model(words, [scored, layers.GRU(3)(x), *pooled])


@family("MaskedSoftmax")
def masked_softmax(rng: Rng) -> Any:
    """Also where a mask leaves nothing of an axis."""
    x = keras.Input((3, 3))
    mask = x > 0.5
    return keras.Model(x, [layers.Softmax(axis)(x, mask=mask) for axis in (-1, 1, [1, 2])])


@family("QueriesThatSeeNothing")
def unseeing(rng: Rng) -> Any:
    """Where a mask leaves a query nothing: nothing, or all alike, by how Keras computes the attention."""
    x, mask = keras.Input((None, 4)), keras.Input((None, None), name="mask")
    seen = mask > 0.6
    found = [layers.MultiHeadAttention(2, 3, dropout=d)(x, x, attention_mask=seen) for d in (0.0, 0.3)]
    found += layers.MultiHeadAttention(2, 3)(x, x, attention_mask=seen, return_attention_scores=True)
    return keras.Model([x, mask], [*found, layers.GroupQueryAttention(3, 4, 2, dropout=0.2)(x, x, attention_mask=seen)])


@family("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def convolutional(rng: Rng, name: str) -> Any:
    rank = int(name[-2])
    strides, dilation = pick(rng, (1, 1), (1, 1), (2, 1), (1, 2))
    given = keras.Input((None if rng.integers(2) else 4, *(some(rng, 4, 7) for _ in range(rank)), 2))
    layer = getattr(layers, name)
    options = {key: value for key, value in recurrent_options(rng, name).items() if key != "return_sequences"}
    sizes = [some(rng, 1, 3) for _ in range(rank)]
    first = layer(
        3, sizes, strides, pick(rng, "same", "valid"), dilation_rate=dilation, return_sequences=True,
        return_state=True, **options,
    )  # fmt: skip
    steps, *states = first(given)
    return keras.Model(given, [steps, layer(3, 2, padding="same")(steps, initial_state=states)])


@family("EncodedDiscretization")
def encoded_discretization(rng: Rng) -> Any:
    x = keras.Input((3,))
    bounds = sorted(float(b) for b in rng.normal(0, 1, some(rng, 1, 4)))
    modes = ("one_hot", "multi_hot", "count")
    return keras.Model(x, [layers.Discretization(bin_boundaries=bounds, output_mode=mode)(x) for mode in modes])


@family("SpectralNormalization")
def spectral_normalization(rng: Rng) -> Any:
    x = keras.Input((5, 6, 3))
    normed = layers.SpectralNormalization(layers.Conv2D(4, 3, padding="same"))(x)
    return keras.Model(x, layers.UpSampling2D((2, 3), interpolation="bicubic")(normed))


@family("OpenPictures")
def open_pictures(rng: Rng) -> Any:
    x = keras.Input((None, None, 2))
    sizes, others = ([some(rng, 2, 9) for _ in range(2)] for _ in range(2))
    found = [
        layers.Resizing(*sizes, "bilinear", crop_to_aspect_ratio=True)(x),
        layers.Resizing(*others, "bilinear", crop_to_aspect_ratio=True)(x[:, :4]),
        layers.Resizing(*sizes, "nearest", pad_to_aspect_ratio=True, fill_value=0.5)(x),
        layers.Resizing(*others, "bicubic", pad_to_aspect_ratio=True)(x[:, :, :3]),
    ]
    return keras.Model(x, [*found, *(layers.UpSampling2D((2, 3), interpolation=f"lanczos{n}")(x) for n in (3, 5))])
