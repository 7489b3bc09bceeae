"""What docs/guides/experiments.md shows about launches and domains compiles."""

import re
from pathlib import Path
from typing import Any

import yaml

from abtest import Experiments

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "experiments.md"


def merged(one: Any, two: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(two, dict):
        return two
    return {key: merged(one[key], two[key]) if key in one and key in two else {**one, **two}[key] for key in one | two}


def test_the_launch_and_the_domains_of_the_guide_compile() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    document, launch, domains = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S))
    launch["layers"]["re_rank"].pop("experiments")
    whole = merged(merged(document, {"scenes": {"discover": launch}}), domains)
    experiments, problems = Experiments.compile(whole, {"region": "str"}, ["home", "discover"])
    assert problems == []
    assert experiments is not None
    plan = experiments.scenes["discover"]
    assert plan.launches[0].key == "more_diversity@1"
    assert plan.domains is not None
    assert [(each.name, each.exclusive) for each in plan.domains.each] == [("alone", True), ("shared", False)]
