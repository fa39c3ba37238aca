import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from toys import toy_data, toy_examples

examples = toy_examples(toy_data(120))


@given(size=st.integers(2, 150), keep=st.lists(st.booleans(), min_size=120, max_size=120))
@settings(max_examples=60, deadline=None)
def test_a_pass_visits_each_example_once(size, keep):
    chosen = examples.subset(torch.tensor(keep))
    batches = list(chosen.batches(size))
    index = torch.cat([b.index for b in batches])
    assert sorted(index.tolist()) == [i for i, kept in enumerate(keep) if kept]
    sizes = [len(b.index) for b in batches]
    assert max(sizes) <= size + 1
    assert 1 not in sizes or len(chosen) == 1  # batch norm needs two


def test_a_batch_carries_its_own_labels_and_inputs():
    for batch in examples.batches(32):
        assert torch.equal(batch.labels, examples.labels[batch.index])
        assert torch.equal(batch.inputs, examples.inputs.take(batch.index))
        assert not torch.equal(batch.view(), batch.view())


def test_a_subset_shares_the_inputs_and_keeps_its_places():
    half = examples.subset(torch.arange(10, 40))
    few = half.subset(torch.tensor([3, 5]))
    assert few.inputs is examples.inputs
    assert few.index.tolist() == [13, 15]
    assert torch.equal(few.labels, examples.labels[[13, 15]])


def test_rows_that_a_method_chose_become_batches():
    rows = torch.tensor([[3, 1, 3], [7, 0, 119]])
    for row, batch in zip(rows, examples.batches_of(rows), strict=True):
        assert torch.equal(batch.index, row)
        assert torch.equal(batch.inputs, examples.inputs.take(row))
        assert torch.equal(batch.labels, examples.labels[row])


def test_a_sample_is_another_one_each_time_and_never_holds_an_example_twice():
    part = examples.subset(torch.arange(20, 100))
    first, second = part.sample(30), part.sample(30)
    for some in (first, second):
        assert len(set(some.index.tolist())) == 30
        assert set(some.index.tolist()) <= set(range(20, 100))
    assert set(first.index.tolist()) != set(second.index.tolist())
    assert part.sample(80) is part
    assert part.sample(1000) is part


def test_order_is_fresh_every_pass_and_the_same_for_a_seed():
    def orders(seed):
        some = toy_examples(toy_data(60), seed)
        return [torch.cat([b.index for b in some.batches(8)]).tolist() for _ in range(2)]

    first, second = orders(3)
    assert first != second
    assert orders(3) == [first, second]
    assert orders(4) != [first, second]


def test_without_shuffling_the_order_is_kept():
    index = torch.cat([b.index for b in examples.batches(50, shuffle=False)])
    assert index.tolist() == list(range(120))


def test_what_a_method_sees_holds_no_true_label():
    data = toy_data(120)
    secret = torch.from_numpy(data.true_labels)
    assert not torch.equal(secret, examples.labels)
    for value in vars(examples).values():
        assert not (
            isinstance(value, torch.Tensor) and value.shape == secret.shape and torch.equal(value, secret)
        )
