"""Seeded random uses of every layer of Keras: a model of one layer, or of a few where only these make sense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

layers, ops = keras.layers, keras.ops
Rng = np.random.Generator
FAMILIES: dict[str, Callable[[Rng], Any]] = {}
ACTIVATIONS = [
    "linear", "relu", "relu6", "sigmoid", "tanh", "softmax", "elu", "selu", "gelu", "silu", "softplus", "softsign",
    "exponential", "hard_sigmoid", "hard_silu", "leaky_relu", "mish", "log_softmax", "celu", "glu", "hard_tanh",
    "hard_shrink", "soft_shrink", "tanh_shrink", "squareplus", "sparse_plus", "sparse_sigmoid", "log_sigmoid",
]  # fmt: skip


def family(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a maker of models; one for several names is given the name."""

    def enter(make: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            FAMILIES[name] = (lambda rng, n=name: make(rng, n)) if len(names) > 1 else make
        return make

    return enter


def pick(rng: Rng, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def some(rng: Rng, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def image(rng: Rng, rank: int, channels: int | None = None, first: bool = False) -> Any:
    sizes = [some(rng, 7, 11) for _ in range(rank)]
    last = channels or some(rng, 2, 5)
    return keras.Input((last, *sizes) if first else (*sizes, last))


def chain(given: Any, *steps: Any) -> Any:
    x = given
    for step in steps:
        x = step(x)
    return keras.Model(given, x)


@family("Dense")
def dense(rng: Rng) -> Any:
    shape = [some(rng, 2, 6) for _ in range(some(rng, 1, 3))]
    return chain(keras.Input(shape), layers.Dense(some(rng, 2, 6), use_bias=bool(rng.integers(2)), activation="tanh"))


@family("Activation")
def activation(rng: Rng) -> Any:
    given = keras.Input((some(rng, 2, 5), 6))
    return keras.Model(given, [layers.Activation(a)(given) for a in ACTIVATIONS])


@family("ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax")
def activation_layer(rng: Rng, name: str) -> Any:
    given = image(rng, some(rng, 1, 2))
    made = {
        "ReLU": lambda: layers.ReLU(pick(rng, None, 1.5), pick(rng, 0.0, 0.1), pick(rng, 0.0, 0.3)),
        "LeakyReLU": lambda: layers.LeakyReLU(0.2),
        "PReLU": lambda: layers.PReLU("uniform", shared_axes=pick(rng, None, [1])),
        "ELU": lambda: layers.ELU(0.7),
        "Softmax": lambda: layers.Softmax(pick(rng, -1, 1, (1, 2))),
    }[name]()
    return chain(given, made)


@family("ActivationLayers")
def activation_in_layer(rng: Rng) -> Any:
    return chain(
        keras.Input((5,)), layers.Dense(4, activation=layers.LeakyReLU(0.1)), layers.Dense(3, activation=ops.silu)
    )


def window(rng: Rng, rank: int) -> dict[str, Any]:
    strides = [some(rng, 1, 2) for _ in range(rank)]
    plain = max(strides) == 1
    return {
        "kernel_size": [some(rng, 1, 3) for _ in range(rank)],
        "strides": strides,
        "padding": pick(rng, "same", "valid"),
        "dilation_rate": some(rng, 1, 2) if plain else 1,
        "use_bias": bool(rng.integers(2)),
    }


@family("Conv1D", "Conv2D", "Conv3D")
def conv(rng: Rng, name: str) -> Any:
    rank = int(name[4])
    options, groups = window(rng, rank), pick(rng, 1, 1, 2)
    if rank == 1:
        options["padding"] = pick(rng, "same", "valid", "causal")
    channels = 4 if groups == 2 else some(rng, 1, 4)
    groups = groups if rank < 3 else 1
    return chain(image(rng, rank, channels), getattr(layers, name)(4, groups=groups, activation="relu", **options))


@family("DepthwiseConv1D", "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D")
def depthwise(rng: Rng, name: str) -> Any:
    rank = int(name[-2])
    options = window(rng, rank)
    options["strides"] = options["strides"][0]
    more = (some(rng, 2, 5),) if name.startswith("Sep") else ()
    return chain(image(rng, rank), getattr(layers, name)(*more, depth_multiplier=some(rng, 1, 2), **options))


@family("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
def transposed(rng: Rng, name: str) -> Any:
    rank = int(name[4])
    strides, kernel = some(rng, 1, 3), some(rng, 1, 4)
    more = {"output_padding": some(rng, 0, strides - 1)} if rng.integers(3) == 0 and strides > 1 else {}
    layer = getattr(layers, name)(some(rng, 2, 4), kernel, strides=strides, padding=pick(rng, "same", "valid"), **more)
    return chain(image(rng, rank), layer)


@family("MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "AveragePooling1D", "AveragePooling2D", "AveragePooling3D")
def pooling(rng: Rng, name: str) -> Any:
    layer = getattr(layers, name)(some(rng, 1, 3), pick(rng, None, 1, 2), padding=pick(rng, "same", "valid"))
    return chain(image(rng, int(name[-2])), layer)


@family(*(f"Global{kind}Pooling{n}D" for kind in ("Max", "Average") for n in (1, 2, 3)))
def global_pooling(rng: Rng, name: str) -> Any:
    first = bool(rng.integers(2))
    layout = "channels_first" if first else "channels_last"
    return chain(image(rng, int(name[-2]), first=first), getattr(layers, name)(layout, keepdims=bool(rng.integers(2))))


@family("BatchNormalization")
def batch_normalization(rng: Rng) -> Any:
    flags = {"scale": bool(rng.integers(2)), "center": bool(rng.integers(2)), "epsilon": pick(rng, 1e-3, 1e-5)}
    return chain(image(rng, some(rng, 1, 3)), layers.BatchNormalization(axis=pick(rng, -1, 1), **flags))


@family("LayerNormalization")
def layer_normalization(rng: Rng) -> Any:
    axis = pick(rng, -1, [1, 2], [-2, -1], 1)
    return chain(
        image(rng, 2), layers.LayerNormalization(axis, center=bool(rng.integers(2)), scale=bool(rng.integers(2)))
    )


@family("LayerNormalizationOfBothEnds")
def layer_normalization_of_ends(rng: Rng) -> Any:
    """Keras puts axes in order as they are given, -1 before 1, and its numbers with them."""
    x = keras.Input((3, 5))
    return keras.Model(x, [layers.LayerNormalization(a)(x) for a in ([1, -1], [-1, -2])])


@family("GroupNormalization", "RMSNormalization", "UnitNormalization")
def normalization(rng: Rng, name: str) -> Any:
    if name == "GroupNormalization":
        return chain(image(rng, some(rng, 1, 2), 6), layers.GroupNormalization(pick(rng, 1, 2, 3, -1)))
    return chain(image(rng, 2), getattr(layers, name)(axis=pick(rng, -1, [1, 2]) if name[0] == "U" else -1))


@family("Add", "Average", "Multiply", "Maximum", "Minimum", "Subtract", "Concatenate")
def merging(rng: Rng, name: str) -> Any:
    shape = [some(rng, 2, 4) for _ in range(3)]
    given = [keras.Input(shape) for _ in range(2 if name == "Subtract" else some(rng, 2, 3))]
    options = {"axis": pick(rng, -1, 1, 2)} if name == "Concatenate" else {}
    return keras.Model(given, getattr(layers, name)(**options)(given))


@family("CustomScaleLayer")
def scaled_sum(rng: Rng) -> Any:
    """Of ``keras.applications.InceptionResNetV2``."""
    from keras.src.applications.inception_resnet_v2 import CustomScaleLayer

    given = [keras.Input((3, 5)) for _ in range(2)]
    return keras.Model(given, CustomScaleLayer(float(rng.uniform(0.1, 0.9)))(given))


@family("Dot")
def dot(rng: Rng) -> Any:
    given = [keras.Input((3, 5)), keras.Input((4, 5))]
    flat = [keras.Input((5,)), keras.Input((5,))]
    made = [layers.Dot(2)(given), layers.Dot((1, 1), normalize=True)(flat), layers.Dot((2, 1))([given[0], flat[0]])]
    return keras.Model([*given, *flat], made)


@family("Reshape", "Permute", "Flatten", "RepeatVector")
def reshaping(rng: Rng, name: str) -> Any:
    if name == "RepeatVector":
        return chain(keras.Input((4,)), layers.RepeatVector(some(rng, 1, 5)))
    if name == "Flatten":
        return chain(image(rng, some(rng, 0, 2)), layers.Flatten(pick(rng, "channels_last", "channels_first")))
    given = keras.Input((4, 6, 2))
    layer = layers.Reshape(pick(rng, (8, 6), (-1, 3), (2, -1, 4))) if name == "Reshape" else layers.Permute((3, 1, 2))
    return chain(given, layer)


@family("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "Cropping1D", "Cropping2D", "Cropping3D")
def borders(rng: Rng, name: str) -> Any:
    rank = int(name[-2])
    pairs = [(some(rng, 0, 2), some(rng, 0, 2)) for _ in range(rank)]
    return chain(image(rng, rank), getattr(layers, name)(pairs[0] if rank == 1 else pairs))


@family("UpSampling1D", "UpSampling2D", "UpSampling3D")
def up_sampling(rng: Rng, name: str) -> Any:
    rank = int(name[-2])
    options = {"interpolation": pick(rng, "nearest", "bilinear")} if rank == 2 else {}
    return chain(image(rng, rank), getattr(layers, name)(some(rng, 1, 3), **options))


@family("Rescaling", "Normalization", "Resizing", "CenterCrop", "CategoryEncoding", "Discretization")
def preprocessing(rng: Rng, name: str) -> Any:
    if name == "CategoryEncoding":
        words = keras.Input((4,), dtype="int32")
        return chain(words, layers.CategoryEncoding(20, pick(rng, "multi_hot", "count")))
    if name == "Resizing":
        return chain(
            image(rng, 2),
            layers.Resizing(some(rng, 4, 9), some(rng, 4, 9), pick(rng, "nearest", "bilinear", "bicubic")),
        )
    if name == "Discretization":
        return chain(keras.Input((4,)), layers.Discretization([-0.5, 0.0, 0.7]))
    if name == "CenterCrop":
        return chain(image(rng, 2), layers.CenterCrop(5, 6))
    if name == "Rescaling":
        return chain(image(rng, 2, 3), layers.Rescaling(0.5, pick(rng, -1.0, [0.1, 0.2, 0.3])))
    layer = layers.Normalization(axis=pick(rng, -1, (1, 3), None), invert=bool(rng.integers(2)))
    given = keras.Input((4, 5, 3))
    layer.adapt(rng.normal(1, 2, (8, 4, 5, 3)).astype(np.float32))
    return chain(given, layer)


@family("Dropout")
def dropout(rng: Rng) -> Any:
    given = image(rng, 2)
    kept = [layers.Dropout(0.5), layers.SpatialDropout2D(0.5), layers.GaussianNoise(1.0), layers.GaussianDropout(0.5)]
    return chain(given, *kept, layers.AlphaDropout(0.5), layers.ActivityRegularization(0.1), layers.Identity())


@family("Operations")
def operations(rng: Rng) -> Any:
    x, y = keras.Input((4, 6)), keras.Input((4, 6))
    pairs = [ops.add, ops.subtract, ops.multiply, ops.divide, ops.maximum, ops.minimum, ops.arctan2]
    ones = [
        ops.abs,
        ops.exp,
        ops.sin,
        ops.cos,
        ops.square,
        ops.floor,
        ops.ceil,
        ops.sign,
        ops.negative,
        ops.tanh,
        ops.erf,
    ]
    found = [f(x, y) for f in pairs] + [f(x) for f in ones]
    found += [x + 1, 2 - x, x * 0.5, 3 / (y * y + 1), x**2, -x, ops.sqrt(ops.abs(x)), ops.log1p(ops.abs(y))]
    found += [ops.where(x > y, x, 0.0), ops.cast(x >= y, "float32"), ops.clip(x, -0.5, 0.5), ops.rsqrt(x * x + 1)]
    found += [ops.relu(x), ops.gelu(x), ops.silu(x), ops.softmax(x, axis=1), ops.leaky_relu(x, 0.1), ops.log_softmax(x)]
    return keras.Model([x, y], found)


@family("OperationsOverAxes")
def operations_over_axes(rng: Rng) -> Any:
    x = keras.Input((4, 6))
    found = [
        f(x, axis=pick(rng, 1, -1, (1, 2)), keepdims=bool(rng.integers(2)))
        for f in (ops.sum, ops.mean, ops.max, ops.min)
    ]
    found += [
        ops.var(x, axis=1),
        ops.std(x, axis=-1),
        ops.argmax(x, axis=1),
        ops.argmin(x, axis=-1),
        ops.logsumexp(x, axis=2),
    ]
    found += [ops.cumsum(x, axis=1), ops.any(x > 1, axis=1), ops.all(x > -1, axis=2), ops.prod(x, axis=1)]
    found += [ops.normalize(x, axis=-1), *ops.top_k(x, 3)]
    return keras.Model(x, found)


@family("OperationsOnShapes")
def operations_on_shapes(rng: Rng) -> Any:
    x = keras.Input((4, 6))
    found = [ops.reshape(x, (-1, 3, 8)), ops.transpose(x, (0, 2, 1)), ops.expand_dims(x, 1), ops.squeeze(x[:, :1], 1)]
    found += [
        ops.concatenate([x, x], axis=pick(rng, 1, 2)),
        ops.stack([x, x], axis=pick(rng, 0, 1, -1)),
        x[:, 1:3, ::2],
        x[..., -1],
    ]
    found += [*ops.split(x, 3, axis=2), *ops.split(x, [1, 4], axis=-1), *ops.unstack(x, axis=1), ops.swapaxes(x, 1, 2)]
    found += [
        ops.moveaxis(x, 1, -1),
        ops.repeat(x, 2, axis=1),
        ops.tile(x, (1, 2, 1)),
        ops.flip(x, axis=1),
        ops.roll(x, 2, axis=2),
    ]
    found += [
        ops.pad(x, ((0, 0), (1, 2), (0, 1))),
        ops.pad(x, ((0, 0), (1, 2), (0, 1)), mode="reflect"),
        ops.take(x, [2, 0], axis=1),
    ]
    found += [
        ops.matmul(x, ops.transpose(x, (0, 2, 1))),
        ops.einsum("abc,abd->acd", x, x),
        ops.one_hot(ops.argmax(x, axis=1), 4),
    ]
    return keras.Model(x, found)


@family("NestedModels")
def nested(rng: Rng) -> Any:
    """A model used twice, which holds a row of layers, and a layer that is shared."""
    row = keras.Sequential([keras.Input((5,)), layers.Dense(4), layers.BatchNormalization()], name="row")
    inner_in = keras.Input((5,))
    shared = layers.Dense(4, activation="tanh")
    normal = layers.BatchNormalization(scale=False)
    inner = keras.Model(inner_in, [normal(row(inner_in)), shared(inner_in)], name="inner")
    first, second, series = keras.Input((5,)), keras.Input((5,)), keras.Input((3, 5))
    a, b = inner(first), inner(second)
    many = layers.TimeDistributed(keras.Sequential([keras.Input((5,)), layers.Dense(2), layers.BatchNormalization()]))
    return keras.Model(
        {"x": first, "y": second, "z": series}, {"sum": a[0] + b[0], "rest": [a[1] * b[1], many(series)]}
    )


@family("Sequential")
def sequential(rng: Rng) -> Any:
    row: Sequence[Any] = [
        keras.Input((8, 8, 2)),
        layers.Conv2D(3, 3),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(4),
    ]
    return keras.Sequential(list(row))


@family("MixedPrecision")
def mixed(rng: Rng) -> Any:
    given = keras.Input((6,))
    x = layers.Dense(5, dtype="mixed_float16", activation="relu")(given)
    return keras.Model(given, layers.Dense(3, dtype="float32")(layers.Dense(4, dtype="mixed_float16")(x)))


@family("ChannelsFirst")
def channels_first(rng: Rng) -> Any:
    """Layers that TensorFlow can run so on a CPU."""
    given = image(rng, 2, first=True)
    steps = [layers.ZeroPadding2D(1, data_format="channels_first"), layers.Permute((2, 3, 1)), layers.Conv2D(3, 3)]
    return chain(
        given,
        *steps,
        layers.Permute((3, 1, 2)),
        layers.BatchNormalization(axis=1),
        layers.UpSampling2D(2, "channels_first"),
    )


@family("ApplicationLayers")
def application_layers(rng: Rng) -> Any:
    """Layers that the networks in Keras bring along."""
    from keras.src.applications.convnext import LayerScale, StochasticDepth

    given = image(rng, 2, 4)
    scaled = StochasticDepth(0.5)(LayerScale(0.5, 4)(given))
    return chain(given, lambda x: scaled + x, layers.Resizing(9, 5, "bicubic"))
