"""Numbers with what they count."""


def counted(number: float, what: str) -> str:
    """Write a number with what it counts, in the singular of one."""
    told = number if isinstance(number, int) else f"{number:g}"
    return f"{told} {what}{'' if number == 1 else 's'}"


__all__ = ["counted"]
