"""How commands show what they have to say: tables, progress, labels."""
