"""Faults that the suite must catch, so that a suite that catches nothing cannot pass.

* ``registry``: what a planted fault is; ``planted_*``: tiny wrong implementations, one sentence each;
* ``hunt``: plays a fault's trace and says who caught it;
* ``mutator``, ``mutants``: every small change of our own geometry and mask modules, and who caught it;
* ``search``: traces drawn at random for mutants that no stored trace kills;
* ``report``: all of it as one table.
"""
