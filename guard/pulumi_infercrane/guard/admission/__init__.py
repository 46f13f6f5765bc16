"""Which pieces of evidence may be judged in a decision, and what their subjects say has changed."""
