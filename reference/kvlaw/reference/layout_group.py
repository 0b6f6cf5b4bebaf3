"""NumPy groups of rows, the physical reference of kinds `full_rows` and `ring_rows`.

* `layout_row`: one row's planes, in its own precision.
* `layout_group_state`: what a group holds and shows, its masks and counts, and which rows are due.
* `layout_group_rows`: appends, padding, trims, and rows handed out.
* `layout_group_merge`: rows put together.

This module is the public surface of the four.
"""

from kvlaw.reference.layout import Refusal
from kvlaw.reference.layout_group_merge import Source, merge
from kvlaw.reference.layout_group_rows import GroupRead, RowGroup, raw_layer
from kvlaw.reference.layout_row import Row, Shape

__all__ = ["GroupRead", "Refusal", "Row", "RowGroup", "Shape", "Source", "merge", "raw_layer"]
