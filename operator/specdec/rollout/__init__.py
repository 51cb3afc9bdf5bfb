"""Revisions, quarantine and the plan. Pure."""
