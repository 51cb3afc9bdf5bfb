"""Flags of the test suite."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that refreshes golden files."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")
