"""Expected failures: each with the trace that shows it, replayed first, and gone around while a target is explored.

* ``entries``: what a file of expectations says of one failure; ``file``: reads such files, and edits them in place.
* ``marks``, ``triggers``: how a failure is told apart from another one of the same clause.
* ``detours``, ``steering``: how exploration goes on behind a listed failure.
* ``witnesses``: the replay of what is listed, and the state of each; ``learn``: what ``--update-expectations`` does.
"""
