"""Releases of mlx-lm: fetched as wheels into a folder of their own, checked, and loaded beside the installed one.

``store`` keeps the wheels, ``modules`` loads what of them a check needs; ``kvlaw releases fetch`` is the only thing
that downloads.
"""
