"""Heads that are trained to draft for a model, and what a model shows of itself for them."""
