"""What this processor can do at most, and which thread did what when."""
