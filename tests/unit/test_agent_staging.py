from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from specdec.engine.agent import staging
from specdec.engine.protocol import DrafterRef
from specdec.preflight.checkpoint import CheckpointRefusedError
from specdec.preflight.reading import read_drafter
from specdec.preflight.source import LocalFolder


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "claim" / "v1"
    folder.mkdir(parents=True)
    save_file({"fc.weight": np.ones((2, 6), np.float16)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"hidden_size": 2}')
    return tmp_path / "models"


@pytest.fixture
def drafter(models: Path) -> DrafterRef:
    return DrafterRef(revision="r1", version="v1", path=str(models / "claim" / "v1"))


def refusal(tmp_path: Path, models: Path, path: Path | str) -> str:
    with pytest.raises(CheckpointRefusedError) as caught:
        staging.make_overlay(
            tmp_path / "state", models, DrafterRef(revision="r", version="v", path=str(path))
        )
    return caught.value.reason


def test_the_overlay_links_the_weights_and_owns_the_config(tmp_path, models, drafter):
    overlay = staging.make_overlay(tmp_path / "state", models, drafter)
    assert sorted(path.name for path in overlay.folder.iterdir()) == ["config.json", "model.safetensors"]
    assert (overlay.folder / "model.safetensors").readlink() == Path(drafter.path) / "model.safetensors"
    assert not (overlay.folder / "config.json").is_symlink()
    assert staging.make_overlay(tmp_path / "state", models, drafter) == overlay


def test_staging_again_drops_what_the_source_no_longer_has(tmp_path, models, drafter):
    source = Path(drafter.path)
    save_file({"x": np.ones(1)}, source / "extra.safetensors")
    staging.make_overlay(tmp_path / "state", models, drafter)
    (source / "extra.safetensors").unlink()
    overlay = staging.make_overlay(tmp_path / "state", models, drafter)
    assert not (overlay.folder / "extra.safetensors").is_symlink()


def test_revisions_have_overlays_of_their_own(tmp_path, models, drafter):
    other = drafter.model_copy(update={"revision": "r2"})
    state = tmp_path / "state"
    assert (
        staging.make_overlay(state, models, drafter).folder
        != staging.make_overlay(state, models, other).folder
    )


@pytest.mark.parametrize("path", ["/etc", "models/claim/v1", "/../etc", ""])
def test_refuses_what_lies_outside_the_models(tmp_path, models, path):
    assert refusal(tmp_path, models, path) == "PathOutsideModels"


def test_refuses_a_way_out_by_dots_and_links(tmp_path, models):
    assert refusal(tmp_path, models, models / ".." / "state") == "PathOutsideModels"
    (models / "way-out").symlink_to("/etc")
    assert refusal(tmp_path, models, models / "way-out") == "PathOutsideModels"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_refuses_files_that_lead_out_of_the_folder(tmp_path, models, drafter, name):
    file = Path(drafter.path) / name
    file.rename(models / name)
    file.symlink_to(models / name)
    assert refusal(tmp_path, models, drafter.path) == "LinkOutsideFolder"


def test_follows_links_inside_the_folder(tmp_path, models, drafter):
    source = Path(drafter.path)
    (source / "..data").mkdir()
    (source / "model.safetensors").rename(source / "..data" / "model.safetensors")
    (source / "model.safetensors").symlink_to("..data/model.safetensors")
    overlay = staging.make_overlay(tmp_path / "state", models, drafter)
    assert (overlay.folder / "model.safetensors").readlink() == source / "..data" / "model.safetensors"


def cached(claim: Path, weights: Path, *, cache: str, blobs: str) -> Path:
    """Lay a drafter out as the hub's cache does: links of a snapshot, files elsewhere."""
    snapshot, held = claim / cache / "snapshots" / "abc", claim / blobs
    snapshot.mkdir(parents=True)
    held.mkdir(parents=True, exist_ok=True)
    for file in weights.iterdir():
        shutil.copy(file, held / file.name)
        (snapshot / file.name).symlink_to(os.path.relpath(held / file.name, snapshot))
    return snapshot


def test_a_snapshot_of_a_hub_cache_is_served_as_its_preflight_read_it(tmp_path, models, drafter):
    snapshot = cached(
        models / "claim", Path(drafter.path), cache="models--org--name", blobs="models--org--name/blobs"
    )
    assert read_drafter(LocalFolder(snapshot)).findings == []
    overlay = staging.make_overlay(
        tmp_path / "state", models, drafter.model_copy(update={"path": str(snapshot)})
    )
    held = models / "claim" / "models--org--name" / "blobs"
    assert (overlay.folder / "model.safetensors").readlink() == held / "model.safetensors"


@pytest.mark.parametrize(
    ("cache", "blobs"),
    [
        ("models--org--name", "models--org--other/blobs"),
        ("models--org--name", "models--org--name/blobs-evil"),
        ("models--org--name", "models--org--name"),
        ("plain", "plain/blobs"),
        ("", "blobs"),
    ],
)
def test_no_link_leads_past_the_cache_of_its_own_model(tmp_path, models, drafter, cache, blobs):
    # With no cache, the claim itself is called snapshots, and blobs is another claim.
    snapshot = cached(models, Path(drafter.path), cache=cache, blobs=blobs)
    found = {finding.code for finding in read_drafter(LocalFolder(snapshot)).findings}
    assert found == {"LinkOutsideFolder"}
    assert refusal(tmp_path, models, snapshot) == "LinkOutsideFolder"


def test_blobs_that_are_a_link_open_nothing(tmp_path, models, drafter):
    snapshot = cached(
        models / "claim", Path(drafter.path), cache="models--org--name", blobs="models--org--name/blobs"
    )
    held = models / "claim" / "models--org--name" / "blobs"
    held.rename(tmp_path / "elsewhere")
    held.symlink_to(tmp_path / "elsewhere")
    assert refusal(tmp_path, models, snapshot) == "LinkOutsideFolder"


def test_refuses_what_is_missing(tmp_path, models):
    assert refusal(tmp_path, models, models / "claim" / "v9") == "FileMissing"


def test_refuses_a_folder_that_is_a_link_to_itself_by_name(tmp_path, models):
    (models / "claim" / "circle").symlink_to("circle")
    drafter = DrafterRef(revision="r", version="v", path=str(models / "claim" / "circle"))
    with pytest.raises(
        CheckpointRefusedError, match=r"claim/circle is no folder, but a link that leads"
    ) as caught:
        staging.make_overlay(tmp_path / "state", models, drafter)
    assert caught.value.reason == "FileMissing"
    assert refusal(tmp_path, models, models / "claim" / "circle" / "below") == "FileMissing"


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "model.safetensors.index.json"])
def test_refuses_files_that_are_links_to_themselves(tmp_path, models, drafter, name):
    file = Path(drafter.path) / name
    file.unlink(missing_ok=True)
    file.symlink_to(name)
    assert refusal(tmp_path, models, drafter.path) == "NotReadable"


async def test_the_digest_comes_from_a_child_process(tmp_path, models, drafter):
    overlay = staging.make_overlay(tmp_path / "state", models, drafter)
    digest = await staging.content_digest(overlay)
    assert digest.startswith("sha256:")
    os.truncate(Path(drafter.path) / "config.json", 0)
    with pytest.raises(CheckpointRefusedError, match=r"config\.json is not JSON"):
        await staging.content_digest(overlay)


def test_weights_that_change_under_their_path_are_refused(tmp_path, drafter):
    staging.same_contents(tmp_path, drafter, "sha256:one")
    staging.same_contents(tmp_path, drafter, "sha256:one")
    with pytest.raises(CheckpointRefusedError, match="first staged with sha256:one"):
        staging.same_contents(tmp_path, drafter, "sha256:two")
    staging.same_contents(tmp_path, drafter.model_copy(update={"revision": "r2"}), "sha256:two")


def test_only_so_many_digests_are_kept(tmp_path, drafter):
    for number in range(staging.KEPT_DIGESTS + 5):
        staging.same_contents(tmp_path, drafter.model_copy(update={"revision": f"r{number}"}), "sha256:one")
    assert (tmp_path / staging.DIGESTS_FILE).read_text().count("sha256") == staging.KEPT_DIGESTS


def test_files_that_stay_as_they_were_are_unchanged(tmp_path, models, drafter):
    staging.unchanged(staging.make_overlay(tmp_path / "state", models, drafter))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: os.utime(folder / "model.safetensors", (1, 1)), "ChangedWhileStaged"),
        (lambda folder: os.truncate(folder / "model.safetensors", 9), "ChangedWhileStaged"),
        (lambda folder: (folder / "model.safetensors").unlink(), "ChangedWhileStaged"),
        (lambda folder: (folder / "late.safetensors").touch(), "ChangedWhileStaged"),
        (shutil.rmtree, "FileMissing"),
    ],
    ids=["written", "cut", "removed", "added", "vanished"],
)
def test_files_that_change_while_they_are_staged_are_noticed(tmp_path, models, drafter, change, reason):
    overlay = staging.make_overlay(tmp_path / "state", models, drafter)
    change(Path(drafter.path))
    with pytest.raises(CheckpointRefusedError) as caught:
        staging.unchanged(overlay)
    assert caught.value.reason == reason
    assert str(drafter.path) in str(caught.value)
