"""Served lists against the marks, through HTTP, bootstrapped with no flags but the cut."""

import pytest

from tests.quality.backtest import RETAIL, Result, backtest

pytestmark = pytest.mark.long
HIT_RATE, NDCG = 0, 2


@pytest.fixture(scope="module")
def retail(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    if not RETAIL.exists():
        pytest.skip("the Online Retail data set is not here")
    return backtest("retail", 30.0, tmp_path_factory.mktemp("retail"))


def test_discover_reaches_its_marks_on_online_retail(retail: dict[str, Result]) -> None:
    served = retail["discover"].served
    assert len(served) == 1277
    assert served[:, HIT_RATE].mean() >= 0.70
    assert served[:, NDCG].mean() >= 0.15


def test_home_reaches_its_marks_on_online_retail(retail: dict[str, Result]) -> None:
    served = retail["home"].served
    assert served[:, HIT_RATE].mean() >= 0.91
    assert served[:, NDCG].mean() >= 0.34


@pytest.mark.parametrize("scene", ["home", "discover"])
@pytest.mark.parametrize("metric", [HIT_RATE, NDCG])
def test_the_funnel_beats_the_best_single_channel_of_its_release(
    retail: dict[str, Result], scene: str, metric: int
) -> None:
    assert retail[scene].lead(metric).low > 0


def test_nothing_leaks_from_after_the_cut(retail: dict[str, Result]) -> None:
    """Hit rates far above what the best offline funnels reach would mean that the future was seen."""
    assert retail["discover"].served[:, HIT_RATE].mean() < 0.77


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    return backtest("journey", 42.0, tmp_path_factory.mktemp("journey"), every=3)


@pytest.mark.parametrize("scene", ["home", "discover"])
def test_the_funnel_beats_the_best_single_channel_on_the_demos_data(journey: dict[str, Result], scene: str) -> None:
    assert journey[scene].lead(HIT_RATE).low > 0
