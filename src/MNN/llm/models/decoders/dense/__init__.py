"""Families that are built like Llama: norms by the root of the mean square, rotary positions, gated layers."""
