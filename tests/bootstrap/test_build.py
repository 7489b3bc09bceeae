import os
import shutil

import numpy as np
import pytest

from bootstrap.build import Built, build_release, cuts_of, discarded_on_failure, steps_of
from bootstrap.dataset import Dataset
from bootstrap.errors import BootstrapError
from features.manifest import Manifest, activate, active
from tests.bootstrap.small import DAY, SMALL, START, dataset, inputs, shop_items, shop_rows


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    return inputs(tmp_path_factory.mktemp("inputs"), shop_rows(), items=shop_items())


@pytest.fixture(scope="module")
def made(given, tmp_path_factory) -> tuple[Built, list[str]]:
    """A release, and what its progress bar was told."""
    said: list[str] = []
    releases = tmp_path_factory.mktemp("made") / "releases"
    return build_release(given, releases, "v1", SMALL, as_of=None, tick=said.append), said


def test_a_release_is_complete_checked_and_not_active_yet(made):
    built, _ = made
    releases = built.manifest.root.parent
    assert active(releases) is None
    manifest = Manifest.read(releases / "v1", verify=True)
    wide = {"item_wide_vectors", "user_wide_vectors"}
    assert set(manifest.views) == wide | {"item_vectors", "user_vectors", "item_titles", "items", "item_popularity"}
    assert set(manifest.lists) == {"i2i", "popular"}
    assert set(manifest.models) == {"home_ranker", "discover_ranker"}
    assert manifest.indexes["item_vectors"]["recall"]["value"] == 1.0
    assert sorted(os.listdir(releases)) == ["v1"]


def test_the_progress_bar_gets_as_many_ticks_as_it_was_promised(made):
    _, said = made
    assert len(said) == steps_of(SMALL)


def test_example_users_have_histories(made):
    built, _ = made
    data = built.data
    examples = built.manifest.about["example_users"]
    assert examples
    assert all(len(data.history(data.user_ids.index(user))) for user in examples)


@pytest.mark.parametrize("at", ["titles", "done"])
def test_a_broken_build_leaves_no_folder_and_the_active_release_alone(given, tmp_path, at):
    class Broken(RuntimeError):
        pass

    releases = tmp_path / "releases"
    releases.mkdir()
    (releases / "active").write_text("v0")
    left = 1 if at == "titles" else steps_of(SMALL)

    def tick(what: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Broken(what)

    with pytest.raises(Broken):
        build_release(given, releases, "v1", SMALL, as_of=None, tick=tick)
    assert sorted(os.listdir(releases)) == ["active"]
    assert (releases / "active").read_text() == "v0"


def test_a_release_is_removed_when_what_follows_fails_unless_it_is_active(made, tmp_path):
    root = shutil.copytree(made[0].manifest.root, tmp_path / "v1")
    manifest = Manifest.read(root)
    with discarded_on_failure(manifest):
        pass
    activate(tmp_path, "v1")
    for active_now in (True, False):
        with pytest.raises(KeyboardInterrupt), discarded_on_failure(manifest):
            raise KeyboardInterrupt
        assert root.exists() is active_now
        (tmp_path / "active").write_text("v0\n")


def test_a_release_of_the_same_name_is_not_touched(given, tmp_path):
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "manifest.json").write_text("precious")
    with pytest.raises(BootstrapError, match="v1"):
        build_release(given, tmp_path, "v1", SMALL, as_of=None, tick=lambda _: None)
    assert (tmp_path / "v1" / "manifest.json").read_text() == "precious"
    assert os.listdir(tmp_path) == ["v1"]


def test_training_windows_are_equal_end_at_as_of_and_leave_a_past(tmp_path):
    from dataclasses import replace

    recipe = replace(SMALL, windows=3)
    for days in (3, 30, 365, 3000):
        rows = [("a", f"i{at % 5}", START + int(at * days * DAY / 200)) for at in range(201)]
        data = dataset(tmp_path, rows)
        cuts = cuts_of(data, recipe, tmp_path)
        assert len(cuts) <= 3
        assert all(cut.cut - cut.window >= START for cut in cuts)
        ends = [cut.cut + cut.window for cut in cuts]
        assert ends[-1] == data.as_of + 1  # the newest event is a label
        assert np.allclose(ends[:-1], [cut.cut for cut in cuts[1:]])
        assert {round(cut.window / DAY, 6) for cut in cuts} == {float(np.clip(days / 12, 1, 30))}


def test_a_log_too_short_for_a_window_has_no_training_window(tmp_path):
    data = dataset(tmp_path, [("a", "x", START), ("b", "y", START + 3600)])
    assert cuts_of(data, SMALL, tmp_path) == []
    assert isinstance(data, Dataset)
