"""Entries of a file of expectations for ``fault:trims-a-wrapped-ring``: one that holds, one that is stale."""

HOLDS = """\
[[expected]]
target = "ring"
clause = "TRIM-4"
trace = "ring window=1 ; decode ; trim 1"
reason = "obeyed until 2.0"
link = "https://example.org/12"
"""
STALE = HOLDS.replace("TRIM-4", "POS-2").replace("ring window=1 ; decode ; trim 1", "ring window=1 ; decode")
