"""The comparison of arithmetic: NumPy against MLX's CPU, bit for bit, over many drawn cases (``kvlaw arithmetic``).

* ``campaign``: what all campaigns share: cases drawn by number, tallies that add up, results;
* ``cases``, ``masks``: the cases of attention, dense or over codes, and the masks that they are drawn with;
* ``attention``, ``attention_over_codes``, ``codec``, ``recurrence``: the campaigns;
* ``run``: all of them by a budget, with what is printed.

No clause depends on them. Where MLX's arithmetic is not the modelled one, which the canaries of ``subjects`` find out,
nothing is compared, and nothing is ever loosened. The tests run the same campaigns, by the same numbers of cases.
"""
