"""Flags of the test suite."""

import asyncio

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag that refreshes golden files."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing")


def pytest_configure() -> None:
    """Keep pytest-asyncio from making a loop that nobody closes when the first test is a plain one (Python 3.11)."""
    asyncio.set_event_loop(None)
