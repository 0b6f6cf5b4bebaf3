"""All lemmas, in the order of their modules."""

from kvlaw.conformance.proofs import (
    lemmas_bypass,
    lemmas_decode,
    lemmas_full,
    lemmas_policy,
    lemmas_positions,
    lemmas_rounds,
    lemmas_rows,
    lemmas_rows_block,
    lemmas_rows_block_masks,
    lemmas_rows_decode,
    lemmas_rows_decode_masks,
    lemmas_rows_growing,
    lemmas_rows_padding,
    lemmas_slots,
    lemmas_trims,
    lemmas_visibility,
    lemmas_window,
    lemmas_window_masks,
)
from kvlaw.conformance.proofs.registry import REGISTERED, Lemma

MODULES = (
    lemmas_positions,
    lemmas_slots,
    lemmas_decode,
    lemmas_window,
    lemmas_full,
    lemmas_visibility,
    lemmas_window_masks,
    lemmas_trims,
    lemmas_bypass,
    lemmas_policy,
    lemmas_rounds,
    lemmas_rows,
    lemmas_rows_padding,
    lemmas_rows_decode,
    lemmas_rows_decode_masks,
    lemmas_rows_block,
    lemmas_rows_block_masks,
    lemmas_rows_growing,
)

LEMMAS: tuple[Lemma, ...] = tuple(
    found for module in MODULES for found in REGISTERED.values() if found.claim.function.__module__ == module.__name__
)
"""Every lemma with its clauses and its twin."""
