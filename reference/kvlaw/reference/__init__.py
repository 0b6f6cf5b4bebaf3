"""The reference model: plain integers and NumPy, slow, obviously right.

* ``history``: the meaning of a cache as a list of tokens; it knows no column and no buffer.
* ``index``: the physical rules as integer functions.  ``layout``: NumPy caches moved with those integers.
* ``recurrent``: rows of recurrent layers, whose state is what all their positions make.
* ``oracle``: what every call must answer, and by which clauses.  ``numerics``: MLX's CPU arithmetic in NumPy.
"""
