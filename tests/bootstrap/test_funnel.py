import numpy as np
import pytest

from bootstrap.artefacts import learn, write_artefacts
from bootstrap.dataset import Dataset
from bootstrap.funnel import Funnel, load_cut
from bootstrap.recipe import features, scenes
from bootstrap.title_vectors import title_vectors
from bootstrap.training import Cut, train_cut
from tests.bootstrap.small import DAY, SMALL, START, dataset, shop_items, shop_rows

CUT = START + 150 * DAY


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Dataset:
    return dataset(tmp_path_factory.mktemp("data"), shop_rows(), items=shop_items())


def titles(data: Dataset) -> np.ndarray:
    return title_vectors(data.item_columns["title"].decode())


@pytest.fixture(scope="module")
def funnels(data, tmp_path_factory) -> dict[str, tuple[Funnel, tuple[str, ...]]]:
    """Each scene's funnel at the cut, and its ranker's features."""
    before = data.before(CUT)
    known = learn(before, SMALL, lambda _: None)
    vectors = titles(data)
    writer = write_artefacts(tmp_path_factory.mktemp("cut"), "cut", before, known, vectors)
    loaded = load_cut(writer.finish().root, before, SMALL, known.popularity, vectors.shape[1])
    found = scenes(SMALL, data.found)
    return {s.name: (Funnel(before, SMALL, s, loaded), features(s, data.found)) for s in found}


@pytest.mark.parametrize("name", ["home", "discover"])
def test_the_ranker_is_fed_its_features_of_known_items_once_each(data, funnels, name):
    funnel, names = funnels[name]
    for seen in funnel.collect(range(10)):
        assert seen.features.shape == (len(seen.rows), len(names))
        assert seen.features.dtype == np.float32
        assert len(seen.rows) > 20
        assert len(set(seen.rows.tolist())) == len(seen.rows)
        assert (seen.rows >= 0).all()
        assert (seen.rows < len(data.item_ids)).all()


def test_discover_is_never_fed_what_the_user_had_and_home_is(data, funnels):
    before = data.before(CUT)
    for user in range(10):
        had = set(before.history(user).rows.tolist())
        [home], [discover] = (funnels[name][0].collect([user]) for name in ("home", "discover"))
        assert had <= set(home.rows.tolist())
        assert not had & set(discover.rows.tolist())


def test_features_say_what_the_history_says(data, funnels):
    funnel, names = funnels["home"]
    before = data.before(CUT)
    for user in range(10):
        history = before.history(user)
        [seen] = funnel.collect([user])
        column = {name: seen.features[:, at] for at, name in enumerate(names)}
        times = np.array([np.count_nonzero(history.rows == row) for row in seen.rows])
        assert column["item.own_count"].tolist() == times.tolist()
        assert (np.isfinite(column["channel.repeat.score"]) == (times > 0)).all()
        assert set(column["item.history_length"].tolist()) == {float(len(history))}
        sold = [np.count_nonzero((before.item == row) & (before.ts > CUT - 30 * DAY)) for row in seen.rows]
        assert column["item.sold_30d"].tolist() == sold


def test_collecting_again_gives_the_same(funnels):
    funnel, _ = funnels["home"]
    first, second = funnel.collect([3, 4, 3]), funnel.collect([3])
    assert first[0].rows.tolist() == first[2].rows.tolist() == second[0].rows.tolist()
    np.testing.assert_array_equal(first[0].features, second[0].features)


def test_a_cuts_labels_are_what_was_taken_after_it(data, tmp_path):
    window = 40 * DAY
    made = train_cut(data, SMALL, Cut("one", CUT, window, tmp_path), titles(data), lambda _: None)
    users, _ = data.taken_in(CUT, CUT + window)
    for found in made.values():
        assert len(found.labels) == len(found.features) == len(found.weights) == found.sizes.sum()
        assert 0 < len(found.sizes) <= min(SMALL.users_per_window, len(np.unique(users)))
        assert found.labels.any()
        assert not found.labels.all()
    assert made["home"].labels.sum() > made["discover"].labels.sum()  # repeats are positives at home only


def test_what_comes_after_the_window_does_not_change_what_a_cut_learns(data, tmp_path):
    from dataclasses import replace

    window = 20 * DAY
    kept = data.ts < CUT + window
    names = ("user", "item", "ts", "event", "weight")
    shorter = replace(data, **{name: getattr(data, name)[kept] for name in names})
    made = [
        train_cut(one, SMALL, Cut(name, CUT, window, tmp_path), titles(one), lambda _: None)
        for name, one in (("long", data), ("short", shorter))
    ]
    for scene in made[0]:
        for name in ("features", "labels", "sizes", "weights"):
            np.testing.assert_array_equal(getattr(made[0][scene], name), getattr(made[1][scene], name))
