"""One configuration bound to one release: what every request is answered from. Immutable, swapped by one reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from abtest import Experiments
from app.config.model import Config, ContextField
from features.behaviour import Behaviour
from features.store import FeatureStore
from stages.pipeline import Pipeline
from stages.plan import ScenePlan
from stages.runtime.release import LoadedRelease


@dataclass(frozen=True, slots=True)
class Snapshot:
    """See the module. `store` and `behaviour` share the process's connections with every other snapshot."""

    config: Config
    loaded: LoadedRelease
    pipeline: Pipeline
    plans: Mapping[str, ScenePlan]
    experiments: Experiments
    store: FeatureStore
    behaviour: Behaviour

    @property
    def config_id(self) -> str:
        """Digest of the configuration."""
        return self.config.id

    @property
    def release(self) -> str:
        """Version of the release."""
        return self.loaded.manifest.release

    @property
    def scenes(self) -> Mapping[str, ScenePlan]:
        """Scenes by name."""
        return self.plans

    @property
    def context(self) -> Mapping[str, ContextField]:
        """Declared context attributes."""
        return self.config.service.context

    def facts(self) -> dict[str, Any]:
        """What people want to know of it."""
        manifest = self.loaded.manifest
        return {
            "config": self.config_id,
            "release": self.release,
            "scenes": sorted(self.plans),
            "items": len(self.loaded.items),
            "users": len(self.loaded.users.ids),
            "models": {name: {"cost_ms": round(m.cost_ms, 3)} for name, m in self.loaded.models.items()},
            "user_caches": {
                view.name: {"hits": cache.hits, "misses": cache.misses} for view, cache in self.store.caches.items()
            },
            "untrimmed": self.behaviour.counts.untrimmed,
            "undecoded": {**self.store.undecoded, "behaviour": self.behaviour.counts.undecoded},
            "about": dict(manifest.about),
        }
