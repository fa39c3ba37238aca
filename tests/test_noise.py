import hashlib
import resource
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labelsift import InputError
from labelsift.noise import (
    Noise,
    _truncated_normal,
    pair_transition,
    read_transition,
    realised,
    symmetric_transition,
)

KINDS = ["symmetric", "symmetric-inclusive", "pair", "instance"]


def images(count=2000, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, 3, 8, 8)).astype(np.uint8)


def labels(count=2000, classes=10):
    return np.arange(count) % classes


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("symmetric:.5", "symmetric:0.5"),
        ("pair:0.450", "pair:0.45"),
        ("instance:1.0", "instance:1"),
        ("symmetric:0.123456789", "symmetric:0.123456789"),
        ("labels=a:b.csv", "labels=a:b.csv"),
        ("matrix=0.50", "matrix=0.50"),
    ],
)
def test_the_same_noise_is_written_in_one_way(text, written):
    assert str(Noise.parse(text)) == written
    assert Noise.parse(written) == Noise.parse(text)


@pytest.mark.parametrize(
    ("spec", "golden"),
    [
        ("symmetric:0.5", "fc04436633a0bc3c"),
        ("symmetric-inclusive:0.5", "6792eca2dfdc63e4"),
        ("pair:0.45", "e23ec669d45a24fc"),
        ("instance:0.4", "6879acf35732133e"),
    ],
)
def test_same_seed_same_labels_on_every_machine(spec, golden):
    noisy = Noise.parse(spec).apply(images(), labels(), 10, seed=3)
    assert hashlib.sha256(noisy.labels.astype("<i8").tobytes()).hexdigest()[:16] == golden


@given(rate=st.floats(0, 1), classes=st.integers(2, 30))
def test_transition_rows_sum_to_one(rate, classes):
    for transition in (
        symmetric_transition(rate, classes),
        symmetric_transition(rate, classes, inclusive=True),
        pair_transition(rate, classes),
    ):
        np.testing.assert_allclose(transition.sum(1), 1)
        assert (transition >= -1e-12).all()


def test_rate_excludes_or_includes_the_true_label():
    np.testing.assert_allclose(np.diag(symmetric_transition(0.5, 10)), 0.5)
    np.testing.assert_allclose(np.diag(symmetric_transition(0.5, 10, inclusive=True)), 1 - 0.5 * 0.9)


@given(
    kind=st.sampled_from(["symmetric", "symmetric-inclusive", "pair"]),
    rate=st.floats(0, 1),
    classes=st.integers(2, 12),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_observed_rate_is_within_binomial_bounds(kind, rate, classes, seed):
    count = 3000
    noisy = Noise(kind, rate).apply(images(1), labels(count, classes), classes, seed)
    expected = rate * (1 - 1 / classes) if kind == "symmetric-inclusive" else rate
    assert abs(noisy.rate - expected) < 5 * np.sqrt(expected * (1 - expected) / count) + 1e-9


@given(seed=st.integers(0, 50), rate=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_pair_noise_hits_only_the_next_class(seed, rate):
    true = labels(500, 7)
    given_labels = Noise("pair", rate).apply(images(1), true, 7, seed).labels
    assert set(np.unique((given_labels - true) % 7)) <= {0, 1}


@pytest.mark.parametrize(("rate", "expected"), [(0.1, 0.1288), (0.2, 0.2055), (0.4, 0.4000)])
def test_instance_noise_has_the_mean_of_the_truncated_normal(rate, expected):
    noisy = Noise("instance", rate).apply(images(20000), labels(20000), 10, seed=1)
    assert abs(noisy.rate - expected) < 0.012


def test_instance_noise_of_rate_zero_is_none():
    assert Noise("instance", 0.0).apply(images(), labels(), 10, seed=1).rate == 0


def test_instance_noise_depends_on_the_image_and_spreads_evenly_without_one():
    true = np.zeros(4000, dtype=np.int64)
    same = np.repeat(images(1), 4000, axis=0)
    wrong = Noise("instance", 0.5).apply(same, true, 10, seed=1).labels
    counts = np.bincount(wrong[wrong != 0], minlength=10)
    assert counts.max() > 0.95 * counts.sum()  # raw pixels: nearly one wrong class per image
    wrong = Noise("instance", 0.5).apply(np.zeros_like(same), true, 10, seed=1).labels
    counts = np.bincount(wrong[wrong != 0], minlength=10)[1:]
    assert counts.min() > 0.7 * counts.mean()


def test_instance_noise_is_the_algorithm_of_the_paper_example_by_example():
    x, true, rng = images(60) // 64, labels(60, 4), np.random.default_rng(5)
    q, draws = _truncated_normal(0.4, 0.1, 60, rng), rng.random(60)
    w = [rng.standard_normal((x[0].size, 4)) for _ in range(4)]
    slow = []
    for i in range(60):
        p = x[i].ravel().astype(float) @ w[true[i]]
        p[true[i]] = -np.inf
        p = q[i] * np.exp(p - p.max()) / np.exp(p - p.max()).sum()
        p[true[i]] = 1 - q[i]
        slow.append(int(np.searchsorted(np.cumsum(p), draws[i], side="right")))
    assert Noise("instance", 0.4).apply(x, true, 4, seed=5).labels.tolist() == slow


def test_instance_noise_for_cifar_is_quick_and_small():
    x = np.random.default_rng(0).integers(0, 256, (50_000, 3, 32, 32), dtype=np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()  # which others on the machine do not lengthen
    Noise("instance", 0.4).apply(x, labels(50_000), 10, seed=1)
    assert time.process_time() - start < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # KiB


def test_realised_matrix_counts_what_became_what():
    noisy = realised(np.array([0, 1, 1, 1]), np.array([0, 0, 1, 1]), 3)
    assert noisy.rate == 0.25
    np.testing.assert_allclose(noisy.transition, [[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]])


@pytest.mark.parametrize("name", ["t.npy", "t.csv", "t.txt"])
def test_matrix_from_a_file(tmp_path, name):
    matrix = np.array([[0.7, 0.3, 0], [0, 1, 0], [0.1, 0.1, 0.8]])
    if name.endswith("npy"):
        np.save(tmp_path / name, matrix)
    else:
        np.savetxt(tmp_path / name, matrix, delimiter="," if name.endswith("csv") else " ")
    np.testing.assert_allclose(read_transition(tmp_path / name, 3), matrix)
    noisy = Noise.parse(f"matrix={tmp_path / name}").apply(images(1), labels(30_000, 3), 3, seed=1)
    np.testing.assert_allclose(noisy.transition, matrix, atol=0.02)
    assert (noisy.transition[matrix == 0] == 0).all()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 0\n0 1", "2 x 2"),
        ("1 0 0\n0 1 0\n0.5 0.4 0", "Row 2"),
        ("1 0 0\n0 1 0\n1.5 -0.5 0", "not probabilities"),
        ("1 0 0\n0 1\n0 0 1", "not of one length"),
        ("a b c", "cannot be read"),
        ("", "not of one length"),
    ],
)
def test_a_matrix_that_is_none(tmp_path, text, says):
    (tmp_path / "t.txt").write_text(text)
    with pytest.raises(InputError, match=says):
        read_transition(tmp_path / "t.txt", 3)


def test_files_of_spreadsheets_are_read(tmp_path):
    """Byte order mark, Windows line ends, blank lines at the end."""
    (tmp_path / "t.csv").write_bytes("1, 0\r\n0, 1\r\n \r\n".encode("utf-8-sig"))
    assert read_transition(tmp_path / "t.csv", 2).tolist() == [[1, 0], [0, 1]]


def test_arrays_that_are_no_labels_or_matrix(tmp_path):
    np.savez(tmp_path / "more.npz", a=np.eye(3), b=np.eye(3))
    (tmp_path / "more.npz").rename(tmp_path / "more.npy")
    np.save(tmp_path / "complex.npy", np.eye(3) * 1j)
    np.save(tmp_path / "flat.npy", np.ones(3))
    for name, says in {"more": "more than one", "complex": "real numbers", "flat": "no matrix"}.items():
        with pytest.raises(InputError, match=says):
            read_transition(tmp_path / f"{name}.npy", 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("symetric:0.5", "did you mean 'symmetric'"),
        ("symmetric", "has no rate"),
        ("symmetric:50", "outside 0..1"),
        ("symmetric:-0.1", "outside 0..1"),
        ("symmetric:nan", "outside 0..1"),
        ("symmetric:x", "has no rate"),
        ("matrix", "names no file"),
        ("labels=", "names no file"),
        ("matrix=nowhere.csv", "No such file"),
    ],
)
def test_noise_that_cannot_be_read(text, says):
    with pytest.raises(InputError, match=says):
        Noise.parse(text).apply(images(3), np.array([0, 1, 2]), 3, seed=1)


def test_labels_of_a_file_are_no_noise_to_draw():
    with pytest.raises(InputError, match=r"labels=l\.csv is labels that are there"):
        Noise.parse("labels=l.csv").apply(images(3), labels(3, 3), 3, seed=1)
