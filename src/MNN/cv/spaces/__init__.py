"""Colour spaces: what conversions make of a pixel, as scalar programs, and pictures whose pixels share numbers."""
