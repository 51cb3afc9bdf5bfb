"""The entry point: settings from the environment, and one end of many parts."""

import asyncio

import aiohttp
import pytest

from specdec.controller import main as entry
from specdec.controller import web
from specdec.controller.settings import LogFormat, OperatorSettings, unique_identity


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECDEC_DEFAULT_IMAGE", "registry.example/engine:1")
    monkeypatch.setenv("SPECDEC_IMAGE_PREFIXES", "registry.example/, localhost/")
    monkeypatch.setenv("SPECDEC_NAMESPACES", "a,b")
    monkeypatch.setenv("SPECDEC_LOG_FORMAT", "plain")
    settings = OperatorSettings()
    assert settings.image_prefixes == ("registry.example/", "localhost/")
    assert settings.namespaces == ("a", "b")
    assert settings.log_format is LogFormat.PLAIN
    assert unique_identity(settings) != unique_identity(settings)


def test_a_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SPECDEC_DEFAULT_IMAGE", raising=False)
    with pytest.raises(SystemExit, match="SPECDEC_DEFAULT_IMAGE: Field required"):
        entry.main()


async def test_when_one_part_fails_the_others_end_and_its_error_is_told():
    ended = asyncio.Event()

    async def fails() -> None:
        raise RuntimeError("the watch broke")

    async def lasts() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    with pytest.raises(RuntimeError, match="the watch broke"):
        await entry._first_end(lasts(), fails())
    assert ended.is_set()


async def test_health_and_metrics_are_served():
    complaints: list[str] = []
    runner = await web.serve("127.0.0.1", 0, lambda: "; ".join(complaints))
    _, port = runner.addresses[0]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        assert (await session.get("/healthz")).status == 200
        complaints.append("the watch on pods missed demo-0")
        answer = await session.get("/healthz")
        assert (answer.status, await answer.text()) == (503, "the watch on pods missed demo-0")
        text = await (await session.get("/metrics")).text()
    await runner.cleanup()
    assert "specdec_leader" in text
