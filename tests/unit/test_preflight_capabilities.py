"""The table of SGLang versions: complete, and what is unknown stays unknown."""

from __future__ import annotations

import pytest

from specdec.preflight import reference
from specdec.preflight.argument_table import folded, known_arguments
from specdec.preflight.arguments import OWNED
from specdec.preflight.capabilities import POSTS, TABLE, capabilities, first_with, normalised_version
from specdec.preflight.probes.claims import CLAIMS


def test_the_table_holds_every_version_from_0_5_9_to_0_5_23():
    assert list(TABLE) == ["0.5.9", "0.5.10", *(f"0.5.{minor}" for minor in range(11, 24))]


def test_every_field_of_the_table_is_proven_by_a_probe():
    fields = set(vars(TABLE["0.5.23"])) - {"version"}
    assert {claim.field for claim in CLAIMS} == fields


@pytest.mark.parametrize(
    ("asked", "row"),
    [("v0.5.23", "0.5.23"), ("0.5.19-cu129", "0.5.19"), ("0.5.12+cu130", "0.5.12"), (" 0.5.9 ", "0.5.9")],
)
def test_what_images_and_builds_add_is_stripped(asked, row):
    assert capabilities(asked) == TABLE[row]


@pytest.mark.parametrize("version", ["", "latest", "0.5.24", "0.6.0", "0.5.23rc1", "0.5.14.post9", "0.5"])
def test_an_unlisted_version_is_unknown_not_its_neighbour(version):
    assert capabilities(version) is None
    assert known_arguments(version) is None


def test_probed_post_releases_equal_their_base_but_for_the_name():
    for post in POSTS:
        row = capabilities(post)
        assert row is not None
        assert row.version == post
        assert normalised_version(post) not in TABLE


def test_the_operator_runs_what_has_plugins_and_zero_steps():
    assert first_with(lambda row: row.served) == "0.5.14"


def test_owned_arguments_exist_in_the_versions_that_are_served():
    for version in (version for version, row in TABLE.items() if row.served):
        known = known_arguments(version)
        assert known is not None
        # --config is read by SGLang's launcher before its parser; the other is rendered only where it is known.
        assert OWNED - known.keys() <= {"--config", "--speculative-draft-kv-cache-dtype"}
    newest = known_arguments(list(TABLE)[-1])
    assert newest is not None
    assert OWNED - newest.keys() <= {"--config"}


def test_arguments_that_come_back_are_two_runs():
    table = folded(
        {"0.5.9": {"--x": "", "--y": ""}, "0.5.10": {"--y": ""}, "0.5.11": {"--x": "", "--y": "--z"}}
    )
    assert table["--x"].runs == (("0.5.9", "0.5.9"), ("0.5.11", "0.5.11"))
    assert table["--y"].runs == (("0.5.9", "0.5.11"),)
    assert table["--y"].instead == "--z"
    assert not table["--x"].holds("0.5.10")


def test_renamed_arguments_are_known_where_they_exist():
    old, new = known_arguments("0.5.19"), known_arguments("0.5.20")
    assert old is not None
    assert new is not None
    assert "--cuda-graph-max-bs" in old
    assert "--cuda-graph-max-bs" not in new
    assert new["--disable-cuda-graph"].instead.startswith("--cuda-graph-backend")


def test_the_reference_pages_are_current():
    for name, page in reference.PAGES.items():
        assert (reference.FOLDER / name).read_text() == page()
