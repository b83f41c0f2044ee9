"""Losses, as models have them that give one beside their answer."""
