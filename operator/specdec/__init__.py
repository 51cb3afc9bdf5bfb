"""specdec-operator: the drafter of speculative decoding as a deployable unit."""
