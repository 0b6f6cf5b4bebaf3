"""The conformance suite: any cache against the oracle, call by call, bit for bit.

* ``adapter``: how the suite talks to a Python cache; ``subjects``: the targets that it knows by name.
* ``stamps``, ``decode``, ``probes``: tensors from token ids, and token ids from what is shown.
* ``lockstep``, ``compare``: the one loop, and the exact comparison; ``machines``: who chooses the calls.
* ``minimise``, ``check``, ``cli``, ``reports``: shortest traces, the verdict, and what users see.
* ``faults``, ``proofs``: planted faults and mutants that must be caught, lemmas that are proved for all sizes.
"""
