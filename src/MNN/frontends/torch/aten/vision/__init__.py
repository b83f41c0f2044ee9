"""Operators of torchvision."""
