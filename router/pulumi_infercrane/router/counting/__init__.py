"""What is in flight and what became of it, since the start and between two moments."""
