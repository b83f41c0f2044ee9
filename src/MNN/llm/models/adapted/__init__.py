"""Layers that adapters of low rank change while a model runs."""
