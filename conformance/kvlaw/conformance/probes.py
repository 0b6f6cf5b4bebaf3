"""What the probes must answer: outputs worked out from the visible sets and the stamp, exact on every backend.

*newest*, *oldest* and *pointer* give back the value bytes of one token; *census* weighs every visible token alike, so
its one-hot lanes are nonzero exactly where a visible token has its lane, and equal bits where one token has it alone.
"""

import numpy as np
import numpy.typing as npt

from kvlaw.conformance.stamps import MOST_TOKENS, Stamper
from kvlaw.reference.history import Sight
from kvlaw.reference.numerics.formats import decode, encode
from kvlaw.spec.observations import Bits

Wrong = tuple[int, str, str]


def check_probes(
    stamper: Stamper, output: Bits, sights: tuple[Sight, ...], pointers: npt.NDArray[np.int64], turn: int
) -> tuple[Wrong, ...] | None:
    """Compare a read's output with what its probes must answer; None where the sets leave it open.

    ``output`` is ``[B, H, L, Dv]``.  Gives (query, wanted, got) for each wrong answer.
    """
    c = stamper.config
    if c.stamp != "code" or any(s.required != s.allowed or not s.required for s in sights):
        return None
    if output.shape != (c.batch, c.heads, len(sights), c.value_dim):
        return ((0, f"an output {[c.batch, c.heads, len(sights), c.value_dim]}", f"one of shape {list(output.shape)}"),)
    most = max(max(s.allowed) for s in sights)
    found: list[Wrong] = []
    for head in range(c.heads):
        probe = stamper.probe(head, turn)
        if probe == "census":
            found += _census(stamper, output[:, head], sights, most)
        elif probe == "pointer" or most <= MOST_TOKENS[c.dtype]:
            found += _winner(stamper, output[:, head], sights, pointers, probe, head)
    return tuple(found)


def _winner(
    stamper: Stamper, output: Bits, sights: tuple[Sight, ...], pointers: npt.NDArray[np.int64], probe: str, head: int
) -> list[Wrong]:
    if probe == "pointer":
        winners = [int(p) if p in s.allowed else 0 for p, s in zip(pointers, sights, strict=True)]
    else:
        pick = max if probe == "newest" else min
        winners = [pick(s.allowed) for s in sights]
    known = max(winners)
    wanted = stamper.table("values", known)[winners][:, :, head // stamper.config.groups].transpose(1, 0, 2)
    wrong = (_folded(output, stamper) != wanted).any(-1)
    if not wrong.any():
        return []
    row, query = (int(x) for x in np.argwhere(wrong)[0])
    if winners[query] == 0:
        return []
    return [(query, f"the {probe} probe answers t{winners[query]}", _who(stamper, output[row, query], row, head))]


def _who(stamper: Stamper, answer: Bits, row: int, head: int) -> str:
    owner = stamper.owners("values").get(_folded(answer, stamper).tobytes())
    if owner is None:
        return "no single token's value"
    if owner.row != row:
        return f"t{owner.token} of row {owner.row}"
    own = owner.head == head // stamper.config.groups
    return f"t{owner.token}" if own else f"t{owner.token} of KV head {owner.head}"


def _folded(output: Bits, stamper: Stamper) -> Bits:
    """Count -0 as +0."""
    sign = 0x80000000 if stamper.config.dtype == "f32" else 0x8000
    return np.where(output == sign, np.zeros_like(output), output)


def _census(stamper: Stamper, output: Bits, sights: tuple[Sight, ...], most: int) -> list[Wrong]:
    table = decode(stamper.table("values", most), stamper.config.dtype)[:, 0, 0][:, stamper.census_lanes]
    lanes = decode(output[..., stamper.census_lanes], stamper.config.dtype)
    found: list[Wrong] = []
    for query, sight in enumerate(sights):
        counts = table[list(sight.allowed)].sum(0)
        seen = lanes[:, query]
        shares = encode(counts / np.float32(len(sight.allowed)), stamper.config.dtype)
        exact = (len(sight.allowed) & (len(sight.allowed) - 1)) == 0 and counts.max() == 1
        support = ((seen != 0) == (counts != 0)).all()
        alone = seen[:, counts == 1]
        even = alone.size == 0 or (alone == alone[:, :1]).all()
        right = support and even and (not exact or (encode(seen, stamper.config.dtype) == shares)[:, counts != 0].all())
        if not right:
            found.append((query, f"the census counts {len(sight.allowed)} tokens", _census_words(seen[0], counts)))
    return found


def _census_words(seen: npt.NDArray[np.float32], counts: npt.NDArray[np.float32]) -> str:
    extra, missing = int(((seen != 0) & (counts == 0)).sum()), int(((seen == 0) & (counts != 0)).sum())
    return f"{extra} others seen, {missing} not seen" if extra or missing else "unequal or wrong weights"
