from __future__ import annotations

from pathlib import Path

import pytest

from specdec.engine.agent.settings import SettingsError, from_environment


def test_defaults_are_where_the_pod_mounts_things():
    found = from_environment({"POD_UID": "u", "HOME": "/cache", "STATE_DIR": ""})
    assert (found.plan_dir, found.models_dir, found.agent_port, found.engine_port) == (
        Path("/etc/specdec"),
        Path("/models"),
        8701,
        30000,
    )


@pytest.mark.parametrize("environ", [{}, {"POD_UID": ""}, {"POD_UID": "u", "AGENT_PORT": "http"}])
def test_a_bad_environment_names_the_variable(environ):
    with pytest.raises(SettingsError, match=r"environment variable (POD_UID|AGENT_PORT) is"):
        from_environment(environ)
