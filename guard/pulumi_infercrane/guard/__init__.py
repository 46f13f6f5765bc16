"""The Release Guard: evidence in, one of three verdicts out. Useful alone; imports nothing else of ours."""
