"""What front ends have in common: building a graph under a format's own names, tables of handlers, and the list of what
a model uses that cannot be done."""
