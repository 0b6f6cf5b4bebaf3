# ruff: noqa: PGH003
# type: ignore # foreign code has no types
import a_module_that_nobody_has  # noqa: F401
