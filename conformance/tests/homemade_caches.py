"""The text of a small growing cache in NumPy, as vendors write them: tests add what is wrong with theirs."""


def growing(doc: str, rest: str, *modules: str) -> str:
    """Write a module with a class ``Cache`` that keeps what it is given.

    Args:
        doc: what its docstring says.
        rest: the lines behind the append: what becomes of it, what is handed out, and other methods.
        modules: what the module imports besides NumPy.
    """
    imports = "".join(f"import {name}\n" for name in modules)
    return f'''
{imports}import numpy as np


class Cache:
    """{doc}"""

    def __init__(self):
        self.keys, self.values, self.offset = None, None, 0

    def update_and_fetch(self, keys, values):
        past = () if self.keys is None else (self.keys,), () if self.values is None else (self.values,)
        self.keys, self.values = np.concatenate([*past[0], keys], 2), np.concatenate([*past[1], values], 2)
        self.offset += keys.shape[2]
{rest}'''
