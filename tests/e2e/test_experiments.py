"""Buckets in every answer follow the plan, and what was seen is written once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from abtest import Experiments
from tests.e2e.shop import Shop
from tests.service import Place, Service, ids, serving
from tests.waiting import until

UNITS = [f"visitor_{at}" for at in range(160)] + [f"访客🎲{at}" for at in range(40)]
FIELDS = {
    *("time", "request_id", "scene", "layer", "experiment", "version", "bucket", "unit_type", "unit"),
    *("layer_slot", "bucket_slot", "reason", "forced", "config", "params"),
}


@pytest.fixture(scope="module")
def live(place: Place) -> Iterator[Service]:
    with serving(place) as running:
        yield running


@pytest.fixture(scope="module")
def plan(place: Place) -> Experiments:
    document = yaml.safe_load(place.read("abtest.yaml"))
    types = {"region": "str", "hour": "int", "app_version": "semver"}
    compiled, problems = Experiments.compile(document, types, ["home", "discover"])
    assert problems == []
    assert compiled is not None
    return compiled


def assigned(plan: Experiments, scene: str, user: str | None) -> Any:
    return plan.assign(scene, {"user_id": user}, {"region": "all", "app_version": "0.0.0"}, 0.0)


def exposures(place: Place, count: int) -> list[dict[str, Any]]:
    """What all workers have written, once there are `count` of them."""
    until(lambda: len(written(place)) >= count, f"{count} exposures")
    return written(place)


def written(place: Place) -> list[dict[str, Any]]:
    files = sorted(place.var.glob("exposures.w*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines(True) if line.endswith(b"\n")]


def test_buckets_and_exposures_follow_the_plan(place: Place, live: Service, plan: Experiments) -> None:
    config = live.get("/version")["config"]
    enrolled = {}
    for user in UNITS:
        answer = live.ask("discover", user, request_id=f"r-{user}")
        expected = assigned(plan, "discover", user)
        assert answer["buckets"] == expected.buckets
        if expected.decisions[0].bucket is not None:
            enrolled[user] = expected.decisions[0]
        assert live.ask("home", user)["buckets"] == {"re_rank": "default:unallocated"}
    assert 20 <= len(enrolled) <= 60  # a fifth of the slots
    assert {decision.bucket.name for decision in enrolled.values()} == {"control", "diverse"}
    written = exposures(place, len(enrolled))
    assert Counter(line["unit"] for line in written) == dict.fromkeys(enrolled, 1)
    for line in written:
        decision = enrolled[line["unit"]]
        assert set(line) == FIELDS
        assert line["time"] > 1.7e9
        assert (line["layer_slot"], line["bucket_slot"]) == (decision.slot, decision.bucket_slot)
        fixed = {
            "request_id": f"r-{line['unit']}",
            "scene": "discover",
            "layer": "re_rank",
            "experiment": "mmr_relevance",
            "version": decision.experiment.version,
            "bucket": decision.bucket.name,
            "unit_type": "user_id",
            "reason": "hash",
            "forced": False,
            "config": config,
            "params": ["discover.relevance"],
        }
        assert {name: line[name] for name in fixed} == fixed
    assert live.get("/admin/status", operator=True)["exposures"] == {"written": len(enrolled), "dropped": 0}


def test_without_a_step_that_reads_the_parameter_there_is_no_exposure(
    place: Place, live: Service, plan: Experiments
) -> None:
    user = next(user for user in UNITS if assigned(plan, "discover", user).decisions[0].bucket is not None)
    before = len(written(place))
    assert ids(live.ask("discover", user, candidates=[], request_id="nothing to rank")) == []
    live.ask("discover", user, request_id="ranked")
    after = exposures(place, before + 1)
    assert len(after) == before + 1
    assert {line["request_id"] for line in after} & {"nothing to rank", "ranked"} == {"ranked"}


def test_an_anonymous_request_is_in_no_bucket(live: Service) -> None:
    assert live.ask("discover", None)["buckets"] == {"re_rank": "default:no_unit"}


def test_a_bucket_changes_what_is_served(fresh: Callable[[], Place], shop: Shop) -> None:
    """The same users under control and treatment, by a whitelist; the treatment's lists differ, not all of them."""
    place = fresh()
    users = shop.user_ids[:30]
    text = place.read("abtest.yaml")
    with serving(place) as service:

        def lists(bucket: str) -> list[list[str]]:
            listed = json.dumps({bucket: users}, ensure_ascii=False)
            changed = text.replace("owner: ranking", f"owner: ranking\n            whitelist: {listed}")
            assert changed != text
            (place.configs / "abtest.yaml").write_text(changed, encoding="utf-8")
            assert service.reload() == []
            answers = [service.ask("discover", user, size=20) for user in users]
            assert {answer["buckets"]["re_rank"] for answer in answers} == {f"mmr_relevance@1/{bucket}"}
            return [ids(answer) for answer in answers]

        control = lists("control")
        assert lists("diverse") != control
        assert lists("control") == control


def test_exposures_are_written_before_the_end(fresh: Callable[[], Place], plan: Experiments) -> None:
    place = fresh()
    users = [user for user in UNITS if assigned(plan, "discover", user).decisions[0].bucket is not None][:20]
    with serving(place) as service:
        for user in users:
            service.ask("discover", user)
        assert service.stop() == 0
    assert sorted(line["unit"] for line in written(place)) == sorted(users)


def test_a_debug_request_is_put_into_a_bucket_and_marked(service: Service, shop: Shop) -> None:
    for name in ("control", "diverse"):
        label = f"mmr_relevance@1/{name}"
        answer = service.ask("discover", shop.user_ids[0], debug=True, force={"re_rank": label})
        assert answer["buckets"]["re_rank"] == label
        assert answer["trace"]["forced"] == {"re_rank": label}
    answer = service.ask("discover", shop.user_ids[0], debug=True, force={"re_rank": "default"})
    assert answer["buckets"]["re_rank"] == "default:forced"
    body = {"scene": "discover", "user_id": "u", "debug": True, "force": {"re_rank": "mmr_relevance@1/dverse"}}
    status, _, content = service.request("POST", "/recommend", body)
    assert status == 422
    problem = json.loads(content)
    assert problem["field"] == "force.re_rank"
    said = "force.re_rank: the layer re_rank has no bucket 'mmr_relevance@1/dverse'. Did you mean "
    assert problem["detail"].startswith(said)
