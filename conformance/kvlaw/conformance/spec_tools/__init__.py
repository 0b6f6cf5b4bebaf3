"""What ``kvlaw spec`` does: keep the text, the code and the checks true to each other.

* ``citations``: who cites which clause, read from the source files without importing them.
* ``evidence``: what runs of the oracle and of the planted faults say about the laws.
* ``check``: everything that can be out of step, as a list of problems (``kvlaw spec check``).
* ``matrix``: clause by {oracle code, law, example, check, fault, lemma} (``kvlaw spec trace``).
* ``show``: one clause as a reader wants it (``kvlaw spec show RING-3``).

All of it takes its inputs as arguments, needs no MLX and takes seconds.
"""
