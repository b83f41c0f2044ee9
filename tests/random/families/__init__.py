"""One file a family; each has ``case(draw)``."""

#: Operators over windows; the others have many attributes.
WINDOWS = (
    "averages", "col2im", "convolution", "deformable", "integer_convolution", "maxima", "powers", "transposed",
    "unpooling", "global_pooling",
)  # fmt: skip
