"""Real trained models: how to fetch them and what a right answer is."""
