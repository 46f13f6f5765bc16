"""The route tables: values, strict reading, what a call makes of one, on disk."""
