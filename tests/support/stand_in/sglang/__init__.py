"""A stand-in for SGLang with our plugin, for faults on purpose: the real one can't be asked to hang or to die."""
