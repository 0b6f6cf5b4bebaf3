"""All lemmas, in the order of their modules: positions, appends, visibility, trims."""

from kvlaw.conformance.proofs import lemmas_appends, lemmas_positions, lemmas_trims, lemmas_visibility
from kvlaw.conformance.proofs.registry import REGISTERED, Lemma

MODULES = (lemmas_positions, lemmas_appends, lemmas_visibility, lemmas_trims)

LEMMAS: tuple[Lemma, ...] = tuple(
    found for module in MODULES for found in REGISTERED.values() if found.claim.function.__module__ == module.__name__
)
"""Every lemma with its clauses and its twin."""
