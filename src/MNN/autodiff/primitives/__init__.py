"""The rules, one kind of primitives a file; they are found by themselves."""
