"""The reference implementation: every primitive in numpy."""
