"""What ``kvlaw spec`` does: keep the text, the code and the checks true to each other.

* ``citations``: who cites which clause, read from the source files without importing them.
* ``evidence``: what runs of the oracle and of the planted faults say about the laws.
* ``gather``: plays those runs: the examples of the text on the oracle, each planted fault on its trace.
* ``check``: everything that can be out of step, as a list of problems (``kvlaw spec check``).
* ``matrix``: clause by {oracle code, law, example, check, fault, lemma} (``kvlaw spec trace``).
* ``show``: one clause as a reader wants it (``kvlaw spec show RING-3``).
* ``gate``: all of it together, for the command line.

What ``gate`` does not do takes its inputs as arguments; nothing here needs MLX, or more than seconds.
"""
