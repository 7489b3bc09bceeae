import pytest

from abtest import SLOTS, ForcedError
from tests.abtest.documents import KNOB, NOW, compiled, document, experiment, k_experiment, layer, with_domains

UNITS = {"user_id": "u1"}


@pytest.mark.parametrize("status", ["draft", "running", "paused", "ended"])
def test_a_forced_bucket_beats_everything_and_is_marked(status: str) -> None:
    base = document(exp_1=experiment(status=status, slots=[], when="context.hour == 3", end="2020-01-01T00:00:00Z"))
    base["scenes"]["home"]["holdout"] = {"slots": SLOTS, "unit": "user_id"}
    experiments = compiled(with_domains(base))
    assignment = experiments.assign("home", UNITS, {}, NOW, {"re_rank": "exp@1/diverse"})
    assert assignment.buckets == {"recall": "default:holdout", "re_rank": "exp@1/diverse"}
    assert assignment.params[KNOB] == 0.7
    assert [(each.reason, each.forced) for each in assignment.decisions] == [("holdout", False), ("forced", True)]
    assert experiments.assign("home", {}, {}, NOW, {"re_rank": "exp@1/diverse"}).params[KNOB] == 0.7


@pytest.mark.parametrize("label", ["default", "default:unallocated"])
def test_the_defaults_can_be_forced(label: str) -> None:
    base = document(exp_1=experiment(slots=[[0, SLOTS]]))
    layer(base, "recall")["experiments"] = {"k@1": k_experiment(slots=[[0, SLOTS]])}
    assignment = compiled(base).assign("home", UNITS, {}, NOW, {"re_rank": label})
    assert assignment.buckets["re_rank"] == "default:forced"
    assert assignment.params[KNOB] == 0.9
    assert assignment.decisions[1].forced
    assert assignment.decisions[0].reason == "hash"


@pytest.mark.parametrize(
    ("forced", "message"),
    [
        ({"rerank": "exp@1/diverse"}, "the scene home has no layer 'rerank'. Did you mean 're_rank'?"),
        ({"re_rank": "exp@1/divers"}, "the layer re_rank has no bucket 'exp@1/divers'. Did you mean 'exp@1/diverse'?"),
        ({"recall": "exp@1/diverse"}, "the layer recall has no bucket 'exp@1/diverse'. Expected one of default."),
    ],
)
def test_what_can_not_be_forced_is_the_callers_mistake(forced: dict[str, str], message: str) -> None:
    with pytest.raises(ForcedError) as caught:
        compiled(document(exp_1=experiment())).assign("home", UNITS, {}, NOW, forced)
    assert str(caught.value) == message
    assert [caught.value.layer] == list(forced)
