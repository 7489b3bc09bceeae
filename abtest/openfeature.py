"""Parameters as OpenFeature flags: a provider for the public `openfeature-sdk` (the extra `recserve[openfeature]`).

A flag's key is a parameter's name; `scene/layer` names a layer, which resolves to an object with all of its
parameters. https://openfeature.dev/specification/sections/providers

>>> from time import time
>>> from openfeature import api
>>> from openfeature.evaluation_context import EvaluationContext
>>> from abtest import Experiments
>>> from abtest.openfeature import ExperimentsProvider
>>> document = {
...     "params": {"re_rank.relevance": {"float": [0, 1], "default": 0.9, "layer": "home/re_rank"}},
...     "scenes": {"home": {"layers": {"re_rank": {"unit": "user_id", "experiments": {}}}}},
... }
>>> experiments, _ = Experiments.compile(document, {}, ["home"])
>>> api.set_provider(ExperimentsProvider(lambda: (experiments, "9f2c01ab34de"), time), domain="shop")
>>> api.get_client("shop").get_float_value("re_rank.relevance", 0.5, EvaluationContext("u42"))
0.9
>>> api.shutdown()
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, TypeVar

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagMetadata, FlagResolutionDetails, FlagValueType, Reason
from openfeature.provider import AbstractProvider, Metadata

from abtest.decision import Assignment, Decision
from abtest.experiments import Experiments
from abtest.params import Param, Value
from abtest.plan import UNITS

Serving = tuple[Experiments, str]
"""What serves now, and its config id."""

Exposed = Callable[[Assignment, AbstractSet[str], str, str, float, str], None]
"""Assignment, flags read, request id, scene, time and config id, as `ExposureLog.record` takes them."""

_T = TypeVar("_T")

_REASONS: Final = MappingProxyType(
    {
        "hash": Reason.SPLIT,
        "whitelist": Reason.TARGETING_MATCH,
        "forced": Reason.TARGETING_MATCH,
        "paused": Reason.DISABLED,
        "ended": Reason.DISABLED,
    }
)
"""What the specification calls the decisions; all others are DEFAULT."""


class ExperimentsProvider(AbstractProvider):
    """Resolves flags from `Experiments`, without I/O.

    `serving` is asked once for each evaluation, so that a reload is one reference; `clock` gives epoch seconds.
    The context's attributes `user_id`, `device_id`, `session_id` and `request_id` are the units, and the
    targeting key is the unit `targeting`, where the attributes don't have it; all other attributes are what
    conditions read. `exposed` (`ExposureLog.record` will do) hears of each enrolled evaluation of a flag that
    the experiment sets; the SDK answers with the caller's default if it raises.

    The details have the bucket as variant (`experiment@version/bucket`), the specification's reason, and in
    the flag's metadata config id, scene, layer, our own reason, and experiment, version and slots where there are any.
    An undeclared flag is FLAG_NOT_FOUND, another type TYPE_MISMATCH (an integer may be read as a float, a
    boolean never as a number); then the value is the caller's default.
    """

    def __init__(
        self,
        serving: Callable[[], Serving],
        clock: Callable[[], float],
        *,
        exposed: Exposed | None = None,
        targeting: str = "user_id",
    ) -> None:
        super().__init__()
        if targeting not in UNITS:
            raise ValueError(f"the targeting key is one of {', '.join(UNITS)}, not {targeting!r}")
        self._serving = serving
        self._clock = clock
        self._exposed = exposed
        self._targeting = targeting

    def get_metadata(self) -> Metadata:
        """The provider's name."""
        return Metadata(name="recserve abtest")

    def resolve_boolean_details(
        self, flag_key: str, default_value: bool, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[bool]:
        """Resolve a parameter that is true or false."""
        return self._resolve(flag_key, default_value, evaluation_context, bool, ("bool",))

    def resolve_string_details(
        self, flag_key: str, default_value: str, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[str]:
        """Resolve a parameter that is text."""
        return self._resolve(flag_key, default_value, evaluation_context, str, ("str",))

    def resolve_integer_details(
        self, flag_key: str, default_value: int, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[int]:
        """Resolve a parameter that is an integer."""
        return self._resolve(flag_key, default_value, evaluation_context, int, ("int",))

    def resolve_float_details(
        self, flag_key: str, default_value: float, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[float]:
        """Resolve a parameter that is a number; an integer comes as a float."""
        return self._resolve(flag_key, default_value, evaluation_context, float, ("float", "int"))

    def resolve_object_details(
        self,
        flag_key: str,
        default_value: Sequence[FlagValueType] | Mapping[str, FlagValueType],
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Sequence[FlagValueType] | Mapping[str, FlagValueType]]:
        """Resolve a layer (`scene/layer`) to a dictionary of its parameters, all of which count as read."""
        experiments, config = serving = self._serving()
        if flag_key in experiments.params:
            return _mismatch(default_value, flag_key, f"{experiments.params[flag_key].type}, not object")
        scene, _, layer = flag_key.partition("/")
        names = _parameters(experiments, scene, layer)
        if not names:
            return _unknown(default_value, flag_key)
        assignment, decision = self._decide(serving, scene, layer, names, evaluation_context)
        values: dict[str, FlagValueType] = {name: assignment.params[name] for name in names}
        return _details(values, decision, names, config, launched=_launched(experiments, assignment, names))

    def _resolve(
        self,
        key: str,
        default: _T,
        context: EvaluationContext | None,
        convert: Callable[[Value], _T],
        types: tuple[str, ...],
    ) -> FlagResolutionDetails[_T]:
        experiments, config = serving = self._serving()
        param = experiments.params.get(key)
        if param is None:
            scene, _, layer = key.partition("/")
            if _parameters(experiments, scene, layer):
                return _mismatch(default, key, "object")
            return _unknown(default, key)
        if param.type not in types:
            return _mismatch(default, key, f"{param.type}, not {types[0]}")
        names = frozenset((key,))
        assignment, decision = self._decide(serving, param.scene, param.layer, names, context)
        value = convert(assignment.params[key])
        return _details(value, decision, names, config, launched=_launched(experiments, assignment, names))

    def _decide(
        self,
        serving: Serving,
        scene: str,
        layer: str,
        names: AbstractSet[str],
        context: EvaluationContext | None,
    ) -> tuple[Assignment, Decision]:
        attributes = dict(context.attributes) if context else {}
        if context and context.targeting_key:
            attributes.setdefault(self._targeting, context.targeting_key)
        units = {unit: found for unit in UNITS if isinstance(found := attributes.get(unit), str | int)}
        now = self._clock()
        experiments, config = serving
        assignment = experiments.assign(scene, units, attributes, now)
        decision = next(each for each in assignment.decisions if each.layer.name == layer)
        if self._exposed is not None and _enrolled(decision, names):
            self._exposed(assignment, names, str(units.get("request_id", "")), scene, now, config)
        return assignment, decision


def _enrolled(decision: Decision, names: AbstractSet[str]) -> bool:
    return decision.bucket is not None and not names.isdisjoint(decision.bucket.values)


def _launched(experiments: Experiments, assignment: Assignment, names: AbstractSet[str]) -> bool:
    """Whether something stands where the declared default would: outside of buckets, that is a launch."""
    return any(assignment.params[name] != experiments.params[name].default for name in names)


def _parameters(experiments: Experiments, scene: str, layer: str) -> frozenset[str]:
    def owned(param: Param) -> bool:
        return (param.scene, param.layer) == (scene, layer)

    return frozenset(name for name, param in experiments.params.items() if owned(param))


def _details(
    value: _T, decision: Decision, names: AbstractSet[str], config: str, *, launched: bool
) -> FlagResolutionDetails[_T]:
    enrolled = _enrolled(decision, names)
    if enrolled or (decision.bucket is None and not launched):
        reason = _REASONS.get(decision.reason, Reason.DEFAULT)
    else:
        reason = Reason.TARGETING_MATCH if launched else Reason.DEFAULT
    return FlagResolutionDetails(
        value,
        reason=reason,
        variant=decision.label if enrolled else None,
        flag_metadata=_metadata(decision, config),
    )


def _metadata(decision: Decision, config: str) -> FlagMetadata:
    said: dict[str, str | int | None] = {
        "config": config,
        "scene": decision.layer.scene,
        "layer": decision.layer.name,
        "reason": decision.reason,
        "experiment": decision.experiment.name if decision.experiment else None,
        "version": decision.experiment.version if decision.experiment else None,
        "layer_slot": decision.slot,
        "bucket_slot": decision.bucket_slot,
    }
    return {name: value for name, value in said.items() if value is not None}


def _unknown(default: _T, key: str) -> FlagResolutionDetails[_T]:
    return _error(default, ErrorCode.FLAG_NOT_FOUND, f"there is no parameter {key!r}")


def _mismatch(default: _T, key: str, what: str) -> FlagResolutionDetails[_T]:
    return _error(default, ErrorCode.TYPE_MISMATCH, f"{key} is {what}")


def _error(default: _T, code: ErrorCode, message: str) -> FlagResolutionDetails[_T]:
    return FlagResolutionDetails(default, error_code=code, error_message=message, reason=Reason.ERROR)
