"""The ladder's levels: what each gives up, that the answer says so, and that the hard filters hold to the last rung."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stages.guard import Outcome
from stages.runtime.release import LoadedRelease
from stages.scene import LadderConfig, SceneConfig, StepConfig
from stages.types import FULL, Answer, Candidates, Quality, View
from tests.stages.fakes import delayed, fake, hits
from tests.stages.small import Engine, home, item, step
from tests.stages.virtual import loop_time, run_virtual

seen: list[tuple[str, int]] = []


def ranker(name: str) -> StepConfig:
    def score(view: View, batch: Candidates) -> Any:
        seen.append((name, len(batch)))
        return batch.rows.astype(np.float32)

    return fake("rank", score, "model")


def scene(**changes: Any) -> SceneConfig:
    ladder = LadderConfig(least=30, small=ranker("small"))
    return replace(home(rank=ranker("large"), ladder=ladder), **changes)


def at(engine: Engine, plan: SceneConfig, quality: Quality, **request: Any) -> tuple[Answer, Outcome]:
    seen.clear()
    return engine.run(plan, quality=quality, **request)


def test_a_full_answer_says_level_0(engine: Engine) -> None:
    answer, _ = at(engine, scene(), FULL)
    assert (answer.level, answer.degraded) == (0, [])
    assert seen == [("large", 80)]


@pytest.mark.parametrize(("share", "ranked"), [(1.0, 80), (0.5, 55), (0.0, 30)])
def test_level_1_ranks_fewer_candidates_down_to_the_least(engine: Engine, share: float, ranked: int) -> None:
    answer, _ = at(engine, scene(), Quality(1, share))
    assert (answer.level, len(answer.ids), answer.degraded) == (1, 20, [])
    assert seen == [("large", ranked)]


def test_never_fewer_are_ranked_than_were_asked_for(engine: Engine) -> None:
    at(engine, scene(), Quality(1, 0.0), size=60)
    assert seen == [("large", 60)]


def test_level_2_leaves_out_the_slow_channels_and_names_them(engine: Engine) -> None:
    plan = scene(ladder=LadderConfig(skip=("recall.i2i",)))
    answer, _ = at(engine, plan, Quality(2, 0.0))
    assert answer.degraded == [("recall.i2i", "level")]
    assert not any("i2i" in channels for channels in answer.channels)


def test_unless_told_otherwise_the_slow_channels_are_those_that_wait(loaded: LoadedRelease) -> None:
    engine = Engine(loaded, clock=loop_time)
    plan = SceneConfig("home", 1.0, (delayed("remote", 0.1, 1), fake("recall", lambda _: hits(2), "near")))
    answer, _ = run_virtual(engine.ask(plan, quality=Quality(2), user_id=None))
    assert (answer.ids, answer.degraded) == ([item(2)], [("recall.remote", "level")])
    alone = replace(plan, recall=plan.recall[:1])
    answer, _ = run_virtual(engine.ask(alone, quality=Quality(2), user_id=None))
    assert (answer.ids, answer.degraded) == ([item(1)], [])  # an answer without any channel helps nobody


def test_level_3_runs_the_smaller_model(engine: Engine) -> None:
    answer, outcome = at(engine, scene(), Quality(3, 0.0))
    assert seen == [("small", 30)]
    assert answer.degraded == []
    assert "rank.model.small" in {record.name for record in outcome.records}


def test_without_a_smaller_model_level_3_keeps_the_large_one(engine: Engine) -> None:
    at(engine, scene(ladder=LadderConfig(least=30)), Quality(3, 0.0))
    assert seen == [("large", 30)]


def test_level_4_keeps_the_pre_rankers_order(engine: Engine) -> None:
    answer, _ = at(engine, scene(re_rank=()), Quality(4, 0.0))
    pre_ranked, _ = at(engine, replace(scene(), rank=None, re_rank=(), ladder=LadderConfig()), FULL)
    assert seen == []
    assert answer.ids == pre_ranked.ids
    assert answer.degraded == [("rank.model", "level")]


def test_level_5_is_the_fallback_list_through_the_hard_filters(engine: Engine) -> None:
    popular, _ = at(engine, scene(), Quality(5, 0.0), user_id=None, size=50)
    bought = popular.ids[:10]
    engine.did("u3", *bought)
    answer, outcome = at(engine, scene(), Quality(5, 0.0), user_id="u3", size=50, exclude=(popular.ids[20],))
    assert len(answer.ids) == 50
    assert set(answer.ids).isdisjoint([*bought, popular.ids[20]])
    assert {channel for channels in answer.channels for channel in channels} == {"fallback"}
    assert {reason for _, reason in answer.degraded} == {"level"}
    assert {name for name, _ in answer.degraded} == {"recall.vector", "recall.i2i", "recall.popular"}
    assert outcome.reads == set()
    assert seen == []


def test_given_candidates_are_filtered_at_every_level(engine: Engine) -> None:
    names = tuple(item(row) for row in range(40))
    for level in range(6):
        answer, _ = at(engine, scene(), Quality(level, 0.0), candidates=names, exclude=(names[0],), size=5)
        assert set(answer.ids) <= set(names[1:])
        assert len(answer.ids) == 5


def test_what_the_level_leaves_out_fails_no_request(engine: Engine) -> None:
    strict = scene(recall=tuple(replace(channel, on_fail="fail") for channel in home().recall))
    strict = replace(strict, rank=replace(ranker("large"), on_fail="fail"))
    answer, _ = at(engine, strict, Quality(5, 0.0))
    assert len(answer.ids) == 20


def test_steps_that_a_level_leaves_out_are_not_read(engine: Engine) -> None:
    mmr = step("re_rank", "re_rank.mmr", "mmr", {"similarity": "item.embedding", "relevance": 0.7})
    answer, outcome = at(engine, scene(re_rank=(mmr,)), Quality(5, 0.0))
    ran = {record.name for record in outcome.records if record.reason is None and record.n_in}
    assert ran <= {"fill", "filters.seen", "filters.exclude", "filters.sellable"}
    assert answer.level == 5
