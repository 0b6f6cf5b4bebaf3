"""``kvlaw init``: a configuration, a file of expectations and a CI workflow, from a first check, all or nothing."""
