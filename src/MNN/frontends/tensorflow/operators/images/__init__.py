"""Operators of pictures: sizes, patches, colours, boxes."""
