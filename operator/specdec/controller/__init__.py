"""The operator process: watches, observes, judges, plans, applies."""
