"""What all ways to multiply share: operands, packing, register tiles, epilogues."""
