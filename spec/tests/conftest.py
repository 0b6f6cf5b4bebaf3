"""Settings of Hypothesis for this room: nothing depends on CI or on how busy the machine is."""

from hypothesis import settings

settings.register_profile("spec", max_examples=100, deadline=None, database=None, derandomize=False, print_blob=True)
settings.load_profile("spec")
