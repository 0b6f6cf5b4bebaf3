"""What the lemmas on rounds assume of a ring in an open round."""

from kvlaw.reference.index import Ring, active, is_valid


def in_round(ring: Ring, appended: int) -> bool:
    """Tell whether a ring can stand in a round in which `appended` positions were appended.

    Beside them it holds what a ring holds, and behind the first of them it lies in temporal order.
    """
    if not is_valid(ring) or not 0 <= appended <= ring.offset:
        return False
    if appended and (ring.rotated or ring.write_index != ring.columns or ring.block):
        return False
    return active(ring) >= min(ring.offset - appended, ring.window - 1) + appended


__all__ = ["in_round"]
