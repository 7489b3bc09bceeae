"""What bootstrap builds from the columns that it finds: channels, derived columns, a ranker's features, two scenes.

One description serves three readers: training runs these very steps, the configuration is written from them, and
serving loads what was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bootstrap.mapping import identifier

DAY = 86_400.0
HISTORY = "user.history"
RECENT = "user.recent_items"
SCENES = ("home", "discover")
PURCHASES = frozenset(
    [
        *("purchase", "purchased", "buy", "bought", "order", "ordered", "transaction", "sale", "sold", "checkout"),
        *("payment", "paid", "conversion", "rent", "rental"),
    ]
)
"""Words in the names of events after which the user has the item."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings with defaults that hold for shops in general; days and counts, fitted to no data set."""

    factors: int = 64
    als_half_life: float = 30.0
    wide_factors: int = 128
    wide_half_life: float = 60.0
    als_alpha: float = 2.0
    als_regularisation: float = 30.0
    als_iterations: int = 6
    neighbour_half_life: float = 30.0
    trigger_half_life: float = 30.0
    popular_half_life: float = 7.0
    repeat_half_life: float = 60.0
    code_half_life: float = 30.0
    vector_k: int = 300
    neighbour_k: int = 300
    popular_k: int = 200
    repeat_k: int = 300
    keep_home: int = 1000
    keep_discover: int = 600
    recent: int = 50
    windows: int = 3
    users_per_window: int = 2500
    sampled: int = 60
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Found:
    """Which optional columns the input has. `group`: the user column that popularity is split by; `kind`: the
    item column that tells items apart best, and that a list is spread over."""

    item_columns: Mapping[str, str]
    user_columns: Mapping[str, str]
    events: tuple[str, ...]
    group: str | None = None
    kind: str | None = None

    @property
    def titled(self) -> bool:
        """Whether items have titles."""
        return "title" in self.item_columns

    @property
    def bought(self) -> tuple[str, ...]:
        """The events that are purchases, where there are others besides; empty where all or none are."""
        bought = tuple(name for name in self.events if _is_purchase(name))
        return bought if len(bought) < len(self.events) else ()

    @property
    def priced(self) -> bool:
        """Whether items have prices."""
        return self.item_columns.get("price") == "f32"

    @property
    def codes(self) -> tuple[str, ...]:
        """Item columns that group items: category and the like, numbers of makers and the like, never the title."""
        return tuple(name for name, kind in self.item_columns.items() if _is_code(name, kind))


@dataclass(frozen=True, slots=True)
class Step:
    """A step as YAML has it: `use`, settings, and the keys that every step may have."""

    name: str
    use: str
    settings: Mapping[str, Any]
    common: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene as YAML has it."""

    name: str
    recall: tuple[Step, ...]
    filters: tuple[Step, ...]
    pre_rank: Step
    model: str


def scenes(recipe: Recipe, found: Found) -> tuple[Scene, ...]:
    """`home`, where what was bought may return, and `discover`, where it never does."""
    common = channels(recipe, found)
    bought = {"events": found.bought} if found.bought else {}
    half_life = recipe.repeat_half_life * DAY
    repeat = Step("repeat", "repeat", {"history": HISTORY, "k": recipe.repeat_k, "half_life": half_life, **bought})

    def dot(keep: int) -> Step:
        return Step("dot", "dot", {"user": "user.embedding", "item": "item.embedding"}, {"keep": keep})

    asked = Step("exclude", "exclude", {})
    sold = Step("sold", "expression", {"condition": "item.buyers > 0"})
    seen = Step("seen", "seen", bought, {"on_fail": "open"})
    return (
        Scene("home", (*common, repeat), (asked, sold), dot(recipe.keep_home), "home_ranker"),
        Scene("discover", common, (seen, asked, sold), dot(recipe.keep_discover), "discover_ranker"),
    )


def _is_code(name: str, kind: str) -> bool:
    return name != "title" if kind in ("str", "vocab") else kind in ("i32", "i64") and name.endswith("_id")


def _is_purchase(event: str) -> bool:
    """Also `Order completed` and `productPurchased`: better an event too many than what was bought in `discover`."""
    return bool(PURCHASES & set(identifier(event).split("_")))


def channels(recipe: Recipe, found: Found) -> tuple[Step, ...]:
    """The channels that both scenes have."""
    popular: dict[str, Any] = {"table": "popular", "k": recipe.popular_k}
    if found.group is not None:
        popular["by"] = f"user.{found.group}"
    return (
        Step("vector", "vector", {"index": "item_vectors", "query": "user.embedding", "k": recipe.vector_k}),
        Step(
            "i2i",
            "item_to_item",
            {
                "table": "i2i",
                "triggers": HISTORY,
                "k": recipe.neighbour_k,
                "half_life": recipe.trigger_half_life * DAY,
            },
        ),
        Step("popular", "popular", popular, {"at_least": 20}),
    )


def derived(recipe: Recipe, found: Found) -> dict[str, dict[str, list[Any]]]:
    """Derived columns: name -> {transform: arguments}."""
    made: dict[str, dict[str, list[Any]]] = {
        "item.trend_7_30": {"ratio": ["item.sold_7d", "item.sold_30d"]},
        "item.trend_14_60": {"ratio": ["item.sold_14d", "item.sold_60d"]},
        "item.trend_30_180": {"ratio": ["item.sold_30d", "item.sold_180d"]},
        "item.age_first": {"age_days": ["item.first_seen"]},
        "item.age_last": {"age_days": ["item.last_seen"]},
        "item.affinity": {"dot": ["user.embedding", "item.embedding"]},
        "item.wide_affinity": {"dot": ["user.wide", "item.wide"]},
        "item.vector_similarity": {"history_similarity": [RECENT, "item.embedding"]},
        "item.vector_nearest": {"history_nearest": [RECENT, "item.embedding"]},
        "item.history_length": {"history_length": [HISTORY]},
        "item.history_idle_days": {"history_idle_days": [HISTORY]},
        "item.history_variety": {"history_variety": [HISTORY]},
        "item.own_count": {"history_count": [HISTORY]},
        "item.own_days": {"history_days": [HISTORY]},
        "item.own_last_days": {"history_last_days": [HISTORY]},
        "item.own_frequency_7d": {"history_frequency": [HISTORY, 7.0]},
        "item.own_frequency_30d": {"history_frequency": [HISTORY, 30.0]},
        "item.own_frequency_120d": {"history_frequency": [HISTORY, 120.0]},
        "item.own_gap_days": {"history_gap_days": [HISTORY]},
        "item.own_due": {"history_due": [HISTORY, "item.repurchase_days"]},
    }
    if found.titled:
        made["item.title_similarity"] = {"history_similarity": [RECENT, "item.title_vector"]}
        made["item.title_nearest"] = {"history_nearest": [RECENT, "item.title_vector"]}
    for code in found.codes:
        made[f"item.{code}_share"] = {"history_share": [HISTORY, f"item.{code}"]}
        made[f"item.{code}_days"] = {"history_code_days": [HISTORY, f"item.{code}"]}
        made[f"item.{code}_variety"] = {"history_code_variety": [HISTORY, f"item.{code}"]}
        made[f"item.{code}_recent"] = {"history_share": [HISTORY, f"item.{code}", recipe.code_half_life]}
        made[f"item.{code}_part"] = {"ratio": ["item.sold_30d", f"item.{code}_sold_30d"]}
        made[f"item.{code}_lift"] = {"ratio": [f"item.{code}_recent", f"item.{code}_sold_30d"]}
        made[f"item.{code}_expected"] = {"product": [f"item.{code}_recent", f"item.{code}_part"]}
    if found.priced:
        made["item.price_ratio"] = {"history_ratio": [HISTORY, "item.price"]}
    return made


_CODE = ("share", "days", "variety", "part", "lift", "expected")
_OWN = ("count", "days", "last_days", "frequency_7d", "frequency_30d", "frequency_120d", "gap_days", "due")
_ITEM = (
    "sold_7d",
    "sold_14d",
    "sold_30d",
    "sold_60d",
    "sold_180d",
    "new_buyers_7d",
    "new_buyers_14d",
    "new_buyers_30d",
    "new_buyers_60d",
    "buyers",
    "buyers_30d",
    "repeat_share",
    "repurchase_days",
    "trend_7_30",
    "trend_14_60",
    "trend_30_180",
    "age_first",
    "age_last",
)


def features(scene: Scene, found: Found) -> tuple[str, ...]:
    """What the scene's ranker reads, in the order of its input."""
    names = [f"channel.{step.name}.{column}" for step in scene.recall for column in ("score", "rank")]
    names += [f"item.{name}" for name in _ITEM]
    names += ["item.affinity", "item.wide_affinity", "item.vector_similarity", "item.vector_nearest"]
    names += ["item.history_length", "item.history_idle_days", "item.history_variety"]
    if found.titled:
        names += ["item.title_similarity", "item.title_nearest"]
    for code in found.codes:
        names += [f"item.{code}_{name}" for name in _CODE]
    if found.priced:
        names += ["item.price", "item.price_ratio"]
    if any(step.use == "repeat" for step in scene.recall):
        names += [f"item.own_{name}" for name in _OWN]
    return tuple(names)
