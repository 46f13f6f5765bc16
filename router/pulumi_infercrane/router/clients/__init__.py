"""Who asks, what a key allows, and what runs now, waits or is refused."""
