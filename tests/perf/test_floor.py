import json
import os
import socket
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from perf.data import F32, I32, NOW, Data, Sizes, reference, traffic
from perf.floor import measure, open_floor, rotate
from perf.index import nlist, open_index, recall
from perf.model import build_ranker, open_ranker
from perf.parts import CHANNELS, HALF_LIFE, I2I, PARTS, POPULAR, VECTOR, Floor, Work, Workload
from perf.store import private_valkey
from perf.timing import Figure, one_core, table, write_figures

SIZES = Sizes(items=6_000, users=60, clusters=40, dim=16, dense=12, profile=4, groups=3, popular=90)
WORKLOAD = Workload(vector=60, nprobe=4, i2i=60, popular=50, candidates=140, ranked=50, window=30, size=10)


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    with open_floor(tmp_path_factory.mktemp("perf"), SIZES, WORKLOAD) as opened:
        yield opened


@pytest.fixture(scope="module")
def data(floor: Floor) -> Data:
    return floor.data


@pytest.fixture
def work(floor: Floor) -> Work:
    done = Work(5)
    for name in PARTS:
        getattr(floor, name)(done)
    return done


def test_a_seed_makes_the_same_data_and_an_existing_set_is_opened_as_it_is(tmp_path: Path) -> None:
    sizes = Sizes(items=300, users=7, clusters=5, dim=8, dense=4, profile=2, groups=2, popular=9)
    first, folder = reference(tmp_path / "a", sizes)
    other, _ = reference(tmp_path / "b", sizes)
    assert all(np.array_equal(getattr(first, name), getattr(other, name)) for name in vars(first))
    stamp = (folder / "vectors.npy").stat().st_mtime_ns
    assert reference(tmp_path / "a", sizes)[1] == folder
    assert (folder / "vectors.npy").stat().st_mtime_ns == stamp
    assert not np.array_equal(reference(tmp_path / "a", sizes, seed=1)[0].vectors, first.vectors)
    assert sorted(p.suffix for p in (tmp_path / "a").iterdir()) == ["", ""]


def test_reference_lists_name_distinct_neighbours_and_never_the_item_itself(data: Data) -> None:
    lists = data.i2i_rows.reshape(SIZES.items, -1)
    assert all(len(set(row)) == SIZES.neighbours for row in lists.tolist())
    assert not (lists == np.arange(SIZES.items)[:, None]).any()


def test_neighbours_and_histories_keep_to_their_clusters(data: Data) -> None:
    random = np.einsum("nd,nd->n", data.vectors, data.vectors[::-1]).mean()
    near = np.einsum("nd,nd->n", data.vectors, data.vectors[data.i2i_rows[:: SIZES.neighbours]]).mean()
    liked = np.einsum("ud,uhd->uh", data.user_vectors, data.vectors[data.history_rows]).mean()
    assert near > 0.6 > abs(random)
    assert liked > 0.3
    np.testing.assert_allclose(np.linalg.norm(data.vectors, axis=1), 1.0, rtol=1e-5)


def test_histories_run_from_old_to_new_before_now(data: Data) -> None:
    assert (np.diff(data.history_ts, axis=1) >= 0).all()
    assert (data.history_ts <= NOW).all()


def test_traffic_falls_off_like_zipf_with_exponent_one() -> None:
    counts = np.sort(np.bincount(traffic(1_000, 200_000), minlength=1_000))[::-1]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.15)
    assert counts[0] / counts[99] == pytest.approx(100, rel=0.35)


def test_cells_shrink_with_the_catalogue_and_stop_at_the_reference() -> None:
    assert [nlist(n) for n in (1, 2_000, 100_000, 1_000_000, 50_000_000)] == [1, 32, 1_024, 4_096, 4_096]


def test_probing_every_cell_finds_nearly_all_exact_neighbours(data: Data, tmp_path: Path) -> None:
    index = open_index(tmp_path, data.vectors)
    assert recall(index, data.vectors, data.user_vectors, 20, nlist(SIZES.items)) > 0.9


def numpy_deepfm(model: bytes, user: F32, item: F32) -> F32:
    weights = {w.name: numpy_helper.to_array(w) for w in onnx.load_from_string(model).graph.initializer}
    both = np.hstack([np.repeat(user, len(item), axis=0), item])
    joined = {n: np.vstack([weights[f"user_{n}"], weights[f"item_{n}"]]) for n in ("linear", "factors", "deep")}
    factors = both[:, :, None] * joined["factors"]
    pairs = 0.5 * (factors.sum(axis=1) ** 2 - (factors**2).sum(axis=1)).sum(axis=1)
    hidden = both @ joined["deep"]
    for layer in range(3):
        hidden = np.maximum(hidden, 0) @ weights[f"deep_{layer}"] + weights[f"bias_{layer}"]
    logits = (both @ joined["linear"])[:, 0] + pairs + hidden[:, 0]
    result: F32 = 1 / (1 + np.exp(-logits))
    return result


def test_the_split_model_equals_deepfm_over_tiled_inputs() -> None:
    rng = np.random.default_rng(3)
    user, item = rng.standard_normal((1, 6), np.float32), rng.standard_normal((20, 9), np.float32)
    model = build_ranker(6, 9)
    (buy,) = open_ranker(model).run(["buy"], {"user": user, "item": item})
    assert buy.shape == (20,)
    assert ((buy > 0) & (buy < 1)).all()
    assert np.ptp(buy) > 0.1
    np.testing.assert_allclose(buy, numpy_deepfm(model, user, item), atol=2e-6)
    assert build_ranker(6, 9) == model


def test_look_up_finds_the_history_and_drops_ids_that_the_catalogue_lacks(floor: Floor, work: Work) -> None:
    assert work.triggers.tolist() == floor.data.history_rows[5].tolist()
    work.hashes = work.hashes.copy()
    work.hashes[[0, 7]] = [0, 2**64 - 1]
    floor.look_up(work)
    assert work.triggers.tolist() == np.delete(floor.data.history_rows[5], [0, 7]).tolist()
    assert len(work.ages) == len(work.triggers)


def test_expansion_sums_decayed_scores_over_triggers(floor: Floor, work: Work) -> None:
    data = floor.data
    sums: dict[int, float] = defaultdict(float)
    for row, ts in zip(data.history_rows[5], data.history_ts[5], strict=True):
        for entry in range(data.i2i_indptr[row], data.i2i_indptr[row + 1]):
            weight = 0.5 ** ((NOW - ts) / HALF_LIFE)
            sums[int(data.i2i_rows[entry])] += float(data.i2i_scores[entry]) * weight
    best = sorted(sums, key=lambda row: -sums[row])[: WORKLOAD.i2i]
    assert set(work.expanded.tolist()) == set(best)


def test_merge_keeps_distinct_rows_with_the_bits_of_all_their_channels(floor: Floor, work: Work) -> None:
    popular = floor.data.popular_rows.reshape(SIZES.groups, -1)[5 % SIZES.groups][: WORKLOAD.popular]
    bits: dict[int, int] = defaultdict(int)
    for rows, bit in ((work.near, VECTOR), (work.expanded, I2I), (popular, POPULAR)):
        for row in rows.tolist():
            bits[row] |= bit
    kept = list(bits)[: WORKLOAD.candidates]
    assert dict(zip(work.rows.tolist(), work.bits.tolist(), strict=True)) == {row: bits[row] for row in kept}


def naive_mmr(scores: F32, vectors: F32, size: int, relevance: float) -> list[int]:
    picks: list[int] = []
    while len(picks) < min(size, len(scores)):
        rest = [i for i in range(len(scores)) if i not in picks]

        def worth(i: int) -> float:
            near = max((float(vectors[i] @ vectors[j]) for j in picks), default=0.0)
            return relevance * float(scores[i]) - (1 - relevance) * near

        picks.append(max(rest, key=worth))
    return picks


def test_re_rank_equals_greedy_mmr_over_the_window(floor: Floor, work: Work) -> None:
    window = np.argsort(-work.scores)[: WORKLOAD.window]
    vectors = floor.data.vectors[work.rows[work.ranked[window]]]
    picks = naive_mmr(work.scores[window], vectors, WORKLOAD.size, WORKLOAD.relevance)
    assert work.picks.tolist() == window[picks].tolist()


def test_the_answer_lists_distinct_items_with_scores_channels_and_prices(floor: Floor, work: Work) -> None:
    answer = json.loads(floor.run(5))
    assert work.body == floor.run(5)
    rows: I32 = work.rows[work.ranked[work.picks]]
    assert [item["id"].encode() for item in answer["items"]] == floor.data.ids[rows].tolist()
    assert len(set(rows.tolist())) == WORKLOAD.size
    assert [item["channels"] for item in answer["items"]] == [CHANNELS[b] for b in work.bits[work.ranked[work.picks]]]
    assert answer["items"][0]["fields"]["price"] == pytest.approx(float(floor.data.price[rows[0]]))


def test_every_part_can_be_repeated_without_changing_the_answer(floor: Floor, work: Work) -> None:
    body = work.body
    for name in PARTS:
        getattr(floor, name)(work)
        getattr(floor, name)(work)
    assert work.body == body


def test_the_default_workload_has_the_reference_sizes() -> None:
    chosen = Workload()
    assert (chosen.candidates, chosen.ranked, chosen.window, chosen.size) == (1_000, 300, 150, 50)
    assert chosen.vector + chosen.i2i + chosen.popular > chosen.candidates


def test_measuring_reports_every_part_and_writes_the_figures(floor: Floor, tmp_path: Path) -> None:
    measured = measure(floor, requests=60, blocks=2)
    assert tuple(measured.parts) == PARTS
    assert min(measured.parts.values()) > 0
    assert 0.2 < measured.over_parts < 5  # others share the machine; the gate itself is `make perf`'s
    assert "sum of parts" in measured.table()
    write_figures(tmp_path / "var" / "perf.json", measured.figures())
    report = json.loads((tmp_path / "var" / "perf.json").read_text())
    assert set(report) == {"machine", "commit", "figures"}
    over = report["figures"]["floor_over_parts"]
    assert over["unit"] == "us"
    assert over["ratio"] == pytest.approx(over["value"] / over["against"])
    assert report["figures"]["floor.rank"]["ratio"] is None


class Recording(Floor):
    """Keeps every body that it encodes."""

    def __init__(self, floor: Floor) -> None:
        super().__init__(floor.data, floor.index, floor.ranker, floor.store, floor.workload)
        self.bodies: list[bytes] = []

    def encode(self, work: Work) -> None:
        super().encode(work)
        self.bodies.append(work.body)


def test_rotation_and_whole_answer_alike_for_every_user_in_flight(floor: Floor) -> None:
    recording = Recording(floor)
    users = traffic(SIZES.users, 30)
    costs = rotate(recording, users)
    answered = users[: len(users) - len(PARTS) + 1].tolist()
    assert recording.bodies == [floor.run(user) for user in answered]
    assert tuple(costs) == PARTS


def test_a_figure_is_held_against_another_by_their_ratio() -> None:
    assert Figure.of(3.0, 2.0) == Figure(3.0, "us", 2.0, 1.5)


def test_a_table_aligns_numbers_to_the_right() -> None:
    assert table(("step", "us"), [("read", 1234.5), ("all", None)]).splitlines()[2:] == ["read  1,234", "all"]


def test_measuring_gives_the_cores_back() -> None:
    before = os.sched_getaffinity(0)
    with one_core():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_the_private_server_is_gone_when_its_caller_is_done() -> None:
    with socket.socket(socket.AF_UNIX) as wire:
        with private_valkey() as path:
            wire.connect(path)
            wire.sendall(b"PING\r\n")
            assert wire.recv(16) == b"+PONG\r\n"
        assert wire.recv(16) == b""
    assert not Path(path).exists()
