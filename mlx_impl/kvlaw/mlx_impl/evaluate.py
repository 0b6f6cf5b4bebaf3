"""``evaluate``: compute arrays now, with a type that mlx's stub leaves open."""

from collections.abc import Callable
from typing import cast

import mlx.core as mx

evaluate = cast("Callable[..., None]", vars(mx)["eval"])
"""Compute arrays, and wait for them."""
