"""Windows sliding over lines of pixels: pooling and depthwise convolution."""
