"""Taking over in steps and being watched afterwards: decisions on what a router counted."""
