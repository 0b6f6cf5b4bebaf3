"""Proofs that the integer rules of the reference, `index` and `index_group`, hold for every window, length and history.

* `registry`: what a lemma is, and the decorators that register one and its twin.
* `lemmas_positions`, `lemmas_slots`: a ring at rest. `lemmas_decode`, `lemmas_window`: appends. `lemmas_visibility`,
  `lemmas_window_masks`: masks and fetches. `lemmas_trims`, `lemmas_bypass`: trims. `lemmas_full`: growing caches.
  Each lemma is followed by its twin.
* `rows`: a row of a group as lemmas speak of it. `lemmas_rows_...`: rows at rest, padding, appends and their masks.
* `exhaustive`: no proof, but every state of small caches, for what has loops: plans of several rows, step by step.
* `lemmas`: all of them, as `LEMMAS`.
* `worker`, `runner`: CrossHair on one claim at a time, in processes of its own; `runner.run` gives the results.

A lemma is a function without loops over integers and values of integers (`Ring`, `Full`, a row). Its docstring has the
preconditions (`pre:`) and says that it returns True (`post: _`). CrossHair must answer "Confirmed over all paths": the
search for a counterexample was exhaustive, over unbounded integers. Its twin has the same preconditions and one formula
changed, and CrossHair must refute it: so each lemma can fail, and its preconditions can be met.

Histories of any length are covered by induction. `is_valid` holds for a new cache and every operation keeps it; and if
`column_position` says which position each column holds before an operation, it still does so after the operation has
moved, written or cut columns. So a mask that equals the law in every valid state equals it after every history. Of rows
the same is said by `is_kept`, `is_whole` and `position_at`.

To check a module by hand: `crosshair check kvlaw.conformance.proofs.lemmas_positions` reports the twins alone.
"""
