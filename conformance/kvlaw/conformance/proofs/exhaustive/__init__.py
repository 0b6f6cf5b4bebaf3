"""Every reachable state of a small cache, whatever its history: the layout of `index` against `history`.

* `product`: a state of the product of both: integers and columns of the layout, and what history says of each row.
* `invariants`: what must hold in every state. `moves`: every call, what must hold at it, and the states it leads to.
* `appends`, `rounds`: appends outside and inside a round, and how a round begins and ends.
* `serial`, `serial_moves`: the same of serial caches, pinned positions and bypass trims included.
* `search`: breadth-first to a fixpoint, and the spaces of each budget. `parallel`: several side by side.
* `report`: `kvlaw prove --exhaustive`.

Columns hold token ids, moved by the plans of the layout; history knows rows as lists of tokens, and padding as counts.
A position is compared up to a shift: a row that has passed `SHIFT_FROM` is told by its newest W positions alone, so the
states are finite and the search ends when no call leads to a new one. It thus speaks of histories of any length.

A round takes up to as many columns as the longest block, in any number of appends, and ends in every way: committed, or
rolled back to any number of columns in each row. There the history is one in which what was taken back never was.

The first violation ends a search; breadth-first, its history is a shortest one.
"""
