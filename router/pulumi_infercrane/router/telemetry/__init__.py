"""What is told of single requests when they have ended: the access log and traces. Nothing of their content.

Loaded only when one of them is wanted; without it a request costs one look at a None.
"""
