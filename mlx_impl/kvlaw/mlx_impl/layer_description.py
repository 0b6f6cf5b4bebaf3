"""What a file says of one layer, as plain data, and a cache that is about to become what it says."""

from collections.abc import Callable
from typing import Any, Self, cast

import attrs

from kvlaw.mlx_impl.errors import FileError
from kvlaw.mlx_impl.file_format import DTYPES, whole


@attrs.frozen
class LayerDescription:
    """One layer: what it is (``config``), where it stands, and of which shapes (None: none).

    ``shapes`` are as its kind has them; ``dtype`` as safetensors names it.
    """

    config: dict[str, Any]
    place: dict[str, int]
    converted: bool
    floor: int
    shapes: tuple[int, ...] | None
    dtype: str | None

    @property
    def told(self) -> dict[str, Any]:
        """Write it as JSON takes it."""
        return attrs.asdict(self)

    @classmethod
    def of(cls, told: object) -> Self:
        """Read it out of JSON.

        Raises:
            FileError: if something is missing, too much, or of another type.
        """
        found = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
        if set(found) != {field.name for field in attrs.fields(cls)}:
            raise FileError("a layer without its fields", "it is something else", "PERS-9")
        config, place, shapes, dtype = found["config"], found["place"], found["shapes"], found["dtype"]
        if not isinstance(config, dict) or not isinstance(place, dict) or type(found["converted"]) is not bool:
            raise FileError("a layer whose fields are something else", "numbers and texts are needed", "PERS-9")
        if (shapes is None) != (dtype is None) or (dtype is not None and dtype not in tuple(DTYPES)):
            raise FileError(f"a layer of dtype {dtype!a:.40}", "shapes and a dtype belong together", "PERS-9")
        if shapes is not None and not isinstance(shapes, list):
            raise FileError(f"a layer of shapes {shapes!a:.40}", "a list of numbers is needed", "PERS-9")
        numbers = {str(name): whole(number, f"{name}") for name, number in cast("dict[str, Any]", place).items()}
        sizes = None if shapes is None else tuple(whole(size, "a size") for size in cast("list[Any]", shapes))
        return cls(
            cast("dict[str, Any]", config), numbers, found["converted"], whole(found["floor"], "a floor"), sizes, dtype
        )


@attrs.frozen(eq=False)
class Restored:
    """An empty cache, the tensors that are its own, and what makes it hold them."""

    cache: Any
    names: tuple[str, ...]
    hold: Callable[[], None]
