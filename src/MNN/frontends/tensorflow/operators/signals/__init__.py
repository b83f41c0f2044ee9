"""Fourier transforms and what speech models make of sound."""
