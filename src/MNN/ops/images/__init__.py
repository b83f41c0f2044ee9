"""Operators on images: pooling, resizing, sampling, regions, detection."""
