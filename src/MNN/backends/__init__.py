"""Machines that programs run on, one room each."""
