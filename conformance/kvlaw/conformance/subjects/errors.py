"""What is said of a target that cannot be run, and of a planted fault that cannot be one."""

from kvlaw.spec.nearest import nearest


class TargetError(Exception):
    """A target that cannot be run: the text names it and says what to do."""


class MisnamedError(TargetError):
    """A name, or an option, that no target can have: the command line is wrong, and nothing was opened."""


class FaultError(ValueError):
    """A planted fault that cannot be registered."""


__all__ = ["FaultError", "MisnamedError", "TargetError", "nearest"]
