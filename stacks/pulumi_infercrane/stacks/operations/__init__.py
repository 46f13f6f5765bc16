"""Durable operations: what was intended, what was tried, what came of it.

`journal` keeps intent and outcome; `lock` keeps two operations of one stack apart. The executor that survives a dead
command line, recovery and the ghost sweep are built on these two.
"""
