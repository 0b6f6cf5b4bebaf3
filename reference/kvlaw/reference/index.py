"""The physical rules of the serial growing cache and the serial ring with sinks, as pure functions over integers.

No arrays, no input or output, no hidden state: values are frozen, and an operation is a check, a plan, a next state.

* `index_state`: the values `Ring` and `Full`, temporal order, and which position each column holds.
* `index_plans`: appends, trims and memory bounds.
* `index_masks`: the law of visibility, and the masks that realise it.

This module is the public surface of the three. The tuples in a `Plan` follow from closed forms without loops, so the
rules are proved for all sizes in `kvlaw.conformance.proofs`; `reference/tests/test_index*.py` compare them with lists
of tokens.
"""

from kvlaw.reference.index_masks import (
    MaskKind,
    block_visible,
    can_narrow,
    decode_temporal,
    decode_visible,
    decode_width,
    effective_window,
    full_visible,
    mask_kind,
    visible,
)
from kvlaw.reference.index_plans import (
    Phase,
    Plan,
    added_columns,
    after_block,
    after_decode,
    after_full,
    block_source,
    can_bypass,
    can_trim,
    capacity_for,
    decode_column,
    decode_source,
    full_plan,
    max_columns,
    overshoot,
    plan_block,
    plan_bypass,
    plan_decode,
    plan_trim,
)
from kvlaw.reference.index_rounds import (
    after_roll_back,
    after_round_block,
    kept_in_round,
    plan_in_round,
    round_source,
)
from kvlaw.reference.index_state import (
    STEP,
    Full,
    Ring,
    State,
    active,
    column_position,
    history,
    is_valid,
    live,
    position_column,
    temporal_column,
    temporal_columns,
    temporal_index,
)

__all__ = [
    "STEP",
    "Full",
    "MaskKind",
    "Phase",
    "Plan",
    "Ring",
    "State",
    "active",
    "added_columns",
    "after_block",
    "after_decode",
    "after_full",
    "after_roll_back",
    "after_round_block",
    "block_source",
    "block_visible",
    "can_bypass",
    "can_narrow",
    "can_trim",
    "capacity_for",
    "column_position",
    "decode_column",
    "decode_source",
    "decode_temporal",
    "decode_visible",
    "decode_width",
    "effective_window",
    "full_plan",
    "full_visible",
    "history",
    "is_valid",
    "kept_in_round",
    "live",
    "mask_kind",
    "max_columns",
    "overshoot",
    "plan_block",
    "plan_bypass",
    "plan_decode",
    "plan_in_round",
    "plan_trim",
    "position_column",
    "round_source",
    "temporal_column",
    "temporal_columns",
    "temporal_index",
    "visible",
]
