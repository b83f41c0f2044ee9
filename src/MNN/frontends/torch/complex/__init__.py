"""Complex tensors of PyTorch: pairs of numbers along one more axis, at the end."""
