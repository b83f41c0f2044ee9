"""Blocks of networks with drawn parameters, for :mod:`tests.keras.random_networks`: images or sequences in and out.

Runs where Keras is. Images are ``[batch, height, width, channels]``, sequences ``[batch, steps, features]``; a block
takes a symbolic tensor and gives one of the same rank.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from keras import activations, layers, ops

Tensor = Any
Block = Callable[[Tensor, random.Random], Tensor]
IMAGES: dict[str, Block] = {}
SEQUENCES: dict[str, Block] = {}
ACTIVATIONS = (
    "relu", "relu6", "gelu", "silu", "elu", "selu", "tanh", "sigmoid", "softplus", "softsign", "hard_sigmoid",
    "hard_silu", "mish", "leaky_relu", "linear", "exponential", "log_sigmoid", "celu",
)  # fmt: skip


def _entered(kind: dict[str, Block]) -> Callable[[Block], Block]:
    def enter(block: Block) -> Block:
        kind[block.__name__] = block
        return block

    return enter


image, sequence = _entered(IMAGES), _entered(SEQUENCES)


def activation(r: random.Random) -> str:
    name = r.choice(ACTIVATIONS)
    return "tanh" if name == "exponential" else name


def activated(x: Tensor, r: random.Random) -> Tensor:
    """One of the activations, as a layer of its own."""
    kind = r.randint(0, 4)
    if kind == 0:
        return layers.ReLU(r.choice([None, 6.0, 3.5]), r.choice([0.0, 0.1]), r.choice([0.0, 0.25]))(x)
    if kind == 1:
        return layers.LeakyReLU(r.choice([0.01, 0.2, 0.3]))(x)
    if kind == 2:
        return layers.PReLU(shared_axes=list(range(1, len(x.shape) - 1)))(x)
    return layers.Activation(getattr(activations, activation(r)))(x)


def normalised(x: Tensor, r: random.Random) -> Tensor:
    kind = r.randint(0, 4)
    channels = x.shape[-1]
    if kind == 0:
        return layers.LayerNormalization(
            epsilon=r.choice([1e-3, 1e-5]), center=r.random() < 0.7, scale=r.random() < 0.7
        )(x)
    if kind == 1:
        groups = r.choice([g for g in range(1, channels + 1) if channels % g == 0])
        return layers.GroupNormalization(groups)(x)
    if kind == 2:
        return layers.RMSNormalization()(x)
    return layers.BatchNormalization(epsilon=r.choice([1e-3, 1e-5]), center=r.random() < 0.7, scale=r.random() < 0.7)(x)


def _window(x: Tensor, r: random.Random, most: int = 5) -> tuple[int, int]:
    return tuple(r.randint(1, max(1, min(most, d or most))) for d in x.shape[1:3])  # type: ignore[return-value]


@image
def convolution(x: Tensor, r: random.Random) -> Tensor:
    channels, filters = x.shape[-1], r.randint(1, 24)
    groups = r.choice([g for g in range(1, channels + 1) if channels % g == 0 and filters % g == 0])
    dilated = r.random() < 0.25
    strides, dilation = (1, (r.randint(1, 3), r.randint(1, 3))) if dilated else ((r.randint(1, 2), r.randint(1, 3)), 1)
    padding = "same" if dilated else r.choice(["same", "valid"])
    return layers.Conv2D(
        filters, _window(x, r), strides, padding, dilation_rate=dilation, groups=groups, activation=activation(r),
        use_bias=r.random() < 0.7,
    )(x)  # fmt: skip


@image
def depthwise(x: Tensor, r: random.Random) -> Tensor:
    stride = r.randint(1, 2)
    dilation = r.randint(1, 2) if stride == 1 else 1
    return layers.DepthwiseConv2D(
        _window(x, r), stride, "same", depth_multiplier=r.choice([1, 1, 1, 2]), dilation_rate=dilation,
        activation=activation(r), use_bias=r.random() < 0.7,
    )(x)  # fmt: skip


@image
def separable(x: Tensor, r: random.Random) -> Tensor:
    return layers.SeparableConv2D(r.randint(1, 16), _window(x, r), r.randint(1, 2), r.choice(["same", "valid"]))(x)


@image
def transposed(x: Tensor, r: random.Random) -> Tensor:
    size, padding = r.randint(1, 4), r.choice(["same", "valid"])
    return layers.Conv2DTranspose(r.randint(1, 12), size, r.randint(1, 2), padding, use_bias=r.random() < 0.7)(x)


@image
def bottleneck(x: Tensor, r: random.Random) -> Tensor:
    """An inverted residual, perhaps with squeeze-and-excite."""
    channels, wide = x.shape[-1], x.shape[-1] * r.randint(2, 4)
    act = r.choice(["relu6", "silu", "hard_silu", "relu"])
    y = layers.BatchNormalization()(layers.Conv2D(wide, 1, use_bias=False)(x))
    y = layers.Activation(act)(y)
    y = layers.DepthwiseConv2D(r.choice([3, 5]), padding="same", use_bias=False)(y)
    y = layers.Activation(act)(layers.BatchNormalization()(y))
    if r.random() < 0.5:
        s = layers.GlobalAveragePooling2D(keepdims=r.random() < 0.5)(y)
        s = layers.Reshape((1, 1, wide))(s)
        s = layers.Conv2D(max(wide // 4, 1), 1, activation="relu")(s)
        s = layers.Conv2D(wide, 1, activation=r.choice(["sigmoid", "hard_sigmoid"]))(s)
        y = layers.Multiply()([y, s] if r.random() < 0.5 else [s, y])
    y = layers.BatchNormalization()(layers.Conv2D(channels, 1, use_bias=False)(y))
    return layers.Add()([x, y])


@image
def pooling(x: Tensor, r: random.Random) -> Tensor:
    kind = r.choice([layers.MaxPooling2D, layers.AveragePooling2D])
    return kind(_window(x, r, 4), (r.randint(1, 3), r.randint(1, 2)), r.choice(["same", "valid"]))(x)


@image
def normalisation(x: Tensor, r: random.Random) -> Tensor:
    return activated(normalised(x, r), r)


@image
def branches(x: Tensor, r: random.Random) -> Tensor:
    """Parallel convolutions, joined."""
    parts = []
    for _ in range(r.randint(2, 4)):
        kind = r.randint(0, 3)
        if kind == 0:
            parts.append(layers.MaxPooling2D(3, 1, "same")(x))
        elif kind == 1:
            parts.append(layers.AveragePooling2D(3, 1, "same")(x))
        else:
            y = layers.Conv2D(r.randint(1, 9), r.choice([1, 3]), padding="same", activation=activation(r))(x)
            parts.append(layers.Conv2D(r.randint(1, 9), (1, 3), padding="same")(y) if r.random() < 0.5 else y)
    joined = layers.Concatenate()(parts)
    return joined if r.random() < 0.5 else activated(joined, r)


@image
def combined(x: Tensor, r: random.Random) -> Tensor:
    """Two branches of the same size, combined number by number."""
    kind = r.choice([layers.Add, layers.Multiply, layers.Maximum, layers.Minimum, layers.Average, layers.Subtract])
    channels = x.shape[-1]
    a = layers.Conv2D(channels, 3, padding="same", activation=activation(r))(x)
    b = x if r.random() < 0.5 else layers.DepthwiseConv2D(3, padding="same")(x)
    return kind()([a, b])


@image
def resized(x: Tensor, r: random.Random) -> Tensor:
    if x.shape[1] * x.shape[2] > 400:
        return layers.Resizing(r.randint(3, 16), r.randint(3, 16), r.choice(["bilinear", "nearest"]))(x)
    return layers.UpSampling2D((r.randint(1, 2), r.randint(1, 3)), interpolation=r.choice(["bilinear", "nearest"]))(x)


@image
def padded(x: Tensor, r: random.Random) -> Tensor:
    y = layers.ZeroPadding2D(((r.randint(0, 2), r.randint(0, 2)), (r.randint(0, 2), r.randint(0, 2))))(x)
    high = layers.Cropping2D(((0, r.randint(0, 1)), (r.randint(0, 1), 0)))
    return layers.Conv2D(r.randint(1, 8), 2, activation=activation(r))(y) if r.random() < 0.5 else high(y)


@image
def places(x: Tensor, r: random.Random) -> Tensor:
    """Attention of every place to every other."""
    h, w, c = x.shape[1:]
    if h * w > 300:
        return layers.AveragePooling2D(2)(x)
    y = places_attended(layers.Reshape((h * w, c))(x), r)
    return layers.Reshape((h, w, c))(y)


def places_attended(y: Tensor, r: random.Random) -> Tensor:
    heads, size = r.randint(1, 3), r.randint(2, 9)
    z = layers.LayerNormalization()(y)
    z = layers.MultiHeadAttention(heads, size, value_dim=r.choice([None, size + 1]), use_bias=r.random() < 0.7)(z, z)
    return layers.Add()([y, z])


@image
def rearranged(x: Tensor, r: random.Random) -> Tensor:
    """Channels shuffled, images turned, rows as features."""
    h, w, c = x.shape[1:]
    kind = r.randint(0, 3)
    if kind == 0:
        return layers.Permute((2, 1, 3))(x)
    if kind == 1 and c % 2 == 0:
        y = ops.transpose(ops.reshape(x, (-1, h, w, 2, c // 2)), (0, 1, 2, 4, 3))
        return ops.reshape(y, (-1, h, w, c))
    if kind == 2 and c > 2:
        a, b = x[..., : c // 2], x[..., c // 2 :]
        return ops.concatenate([b, ops.relu(a)], -1)
    return ops.flip(x, r.choice([1, 2, 3]))


@image
def scanned(x: Tensor, r: random.Random) -> Tensor:
    """Rows as steps of a recurrence."""
    h, w, c = x.shape[1:]
    if w * c > 200:
        return layers.Conv2D(4, 3, 2, "same")(x)
    y = recurrent(layers.Reshape((h, w * c))(x), r)
    return layers.Reshape((y.shape[1], 1, y.shape[2]))(y) if len(y.shape) == 3 else layers.Reshape((1, 1, -1))(y)


@sequence
def recurrent(x: Tensor, r: random.Random) -> Tensor:
    kind, units = r.choice([layers.LSTM, layers.GRU, layers.SimpleRNN]), r.randint(1, 12)
    options: dict[str, Any] = {
        "use_bias": r.random() < 0.8,
        "activation": r.choice(["tanh", "relu", "sigmoid", "softsign"]),
    }
    if kind is not layers.SimpleRNN:
        options["recurrent_activation"] = r.choice(["sigmoid", "hard_sigmoid", "tanh"])
    if kind is layers.GRU:
        options["reset_after"] = r.random() < 0.5
    if r.random() < 0.5:
        options |= {"activation": "tanh"} | ({} if kind is layers.SimpleRNN else {"recurrent_activation": "sigmoid"})
    if r.random() < 0.4:
        return layers.Bidirectional(
            kind(units, return_sequences=True, **options), merge_mode=r.choice(["concat", "sum", "mul", "ave"])
        )(x)  # fmt: skip
    return kind(units, return_sequences=True, go_backwards=r.random() < 0.3, **options)(x)


@sequence
def convolution1(x: Tensor, r: random.Random) -> Tensor:
    filters, causal = r.randint(1, 16), r.random() < 0.3
    padding = "causal" if causal else "same"
    dilation, stride = (r.randint(1, 3), 1) if r.random() < 0.4 else (1, r.randint(1, 2))
    return layers.Conv1D(filters, r.randint(1, 4), stride, padding, dilation_rate=dilation, activation=activation(r))(x)


@sequence
def separable1(x: Tensor, r: random.Random) -> Tensor:
    if r.random() < 0.5:
        return layers.DepthwiseConv1D(r.randint(1, 3), padding="same", depth_multiplier=r.randint(1, 2))(x)
    return layers.SeparableConv1D(r.randint(1, 9), r.randint(1, 3), padding="same", activation=activation(r))(x)


@sequence
def transposed1(x: Tensor, r: random.Random) -> Tensor:
    return layers.Conv1DTranspose(r.randint(1, 9), r.randint(1, 3), r.randint(1, 2), padding="same")(x)


@sequence
def dense(x: Tensor, r: random.Random) -> Tensor:
    return layers.Dense(r.randint(1, 24), activation=activation(r), use_bias=r.random() < 0.7)(x)


@sequence
def normalisation1(x: Tensor, r: random.Random) -> Tensor:
    return activated(normalised(x, r), r)


@sequence
def attended(x: Tensor, r: random.Random) -> Tensor:
    if r.random() < 0.6:
        return places_attended(x, r)
    kind = r.choice([layers.Attention, layers.AdditiveAttention])
    return kind()([x, x])


@sequence
def feed_forward(x: Tensor, r: random.Random) -> Tensor:
    width = x.shape[-1]
    y = layers.Dense(2 * width, activation=r.choice(["gelu", "relu", "silu"]))(layers.LayerNormalization()(x))
    return layers.Add()([layers.Dense(width)(y), x])


@sequence
def pooling1(x: Tensor, r: random.Random) -> Tensor:
    kind = r.choice([layers.MaxPooling1D, layers.AveragePooling1D])
    return kind(r.randint(1, 3), r.randint(1, 2), r.choice(["same", "valid"] if x.shape[1] > 3 else ["same"]))(x)


@sequence
def gated(x: Tensor, r: random.Random) -> Tensor:
    """A gated linear unit, or the numbers by a softmax over steps."""
    width = x.shape[-1]
    if r.random() < 0.5:
        return layers.Multiply()([layers.Dense(width)(x), layers.Dense(width, activation="sigmoid")(x)])
    return x * layers.Softmax(axis=1)(layers.Dense(1)(x))


@sequence
def arranged1(x: Tensor, r: random.Random) -> Tensor:
    kind = r.randint(0, 3)
    if kind == 0:
        return layers.Permute((2, 1))(x)
    if kind == 1:
        return layers.UpSampling1D(2)(x) if x.shape[1] < 30 else layers.Cropping1D((1, 2))(x)
    if kind == 2:
        return layers.ZeroPadding1D((1, r.randint(0, 2)))(x)
    return layers.Concatenate(axis=r.choice([1, 2]))([x, ops.tanh(x)])


@sequence
def timed(x: Tensor, r: random.Random) -> Tensor:
    return layers.TimeDistributed(layers.Dense(r.randint(1, 8), activation=activation(r)))(x)
