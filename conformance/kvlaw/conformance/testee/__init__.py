"""Testees: caches in other processes, in any language, asked by the protocol of ``kvlaw.spec.wire``.

* ``channel``: one running process, asked line by line within time limits; ``reaper`` ends it whatever becomes of us.
* ``subject``: ``ProcessSubject``, a ``Subject`` that is such a process, started again after it was lost.
* ``serve``: the other side, for any of our own subjects; ``smoke``: whether a vendor's glue speaks the protocol.
"""
