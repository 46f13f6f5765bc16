"""Judging one rule: what all kinds of evidence share, from an interval to a finding."""
