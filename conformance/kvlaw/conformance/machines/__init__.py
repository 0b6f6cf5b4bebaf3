"""The stateful Hypothesis machines that choose calls.

* ``configs``: which configurations are drawn. ``base``: a machine in lockstep.
* ``protocol``: drives a cache the way runtimes do (prefill in chunks, decode, draft and verify, reuse of a prefix).
* ``contract``: calls anything at any time within what the target can do; ``list_rules``: its part that acts on lists.
* ``server``: serves requests that come, join, draft, leave, are kept and come again: all of the above in one world.
"""
