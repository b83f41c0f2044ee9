"""Models whose layers remember a text in a state of a fixed size, some or all of them."""
