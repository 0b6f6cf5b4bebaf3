"""Offline vectors: stored traces for a native test suite to replay, and the judging of what it observed.

``form`` has what a file of vectors says, ``export`` makes one of the stored traces, ``results`` reads a file of
observations, and ``recorded`` is the subject that answers with them, so that a check walks it like any other.
``replaying`` does what a native test does, in Python. The page ``docs/vectors.md`` says how a native test reads and
writes these files.
"""
