"""Restarts, freezing and "rest" do to parameters and optimisers exactly what they say."""

from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from labelsift.data import Batch
from labelsift.losses import cross_entropy
from labelsift.nets import blueprint, standard_cuts
from labelsift.parts import split
from labelsift.training import Learner, Machine
from toys import TinyNet, toy_data, toy_examples

examples = toy_examples(toy_data(120))
SGD = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}


def make(compile=False) -> Learner:
    torch.manual_seed(0)
    return Learner(blueprint(TinyNet, 3, (1, 12, 12)), Machine(torch.device("cpu"), compile=compile))


def train(learner: Learner, steps: int = 3) -> None:
    for batch in list(examples.batches(16))[:steps]:
        learner.update(F.cross_entropy(learner(batch.plain()), batch.labels))


def snapshot(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.net.state_dict().items()}


def moved(learner: Learner, before: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, now in learner.net.state_dict().items() if not torch.equal(now, before[name])}


def weights(names: set[str]) -> set[str]:
    return {name for name in names if "running" not in name and "tracked" not in name}


def names_of(learner: Learner, part) -> set[str]:
    return weights({name for name, _ in part.tensors()})


def test_former_parts_stand_bit_still_while_a_later_one_trains():
    learner = make()
    parts = split(learner.net, standard_cuts(learner.net, 3))
    learner.begin(learner.sgd(**SGD))
    train(learner)
    learner.restart(parts[1:])
    before = snapshot(learner)
    learner.begin(learner.adam(1e-3), parts[1:])
    train(learner)
    assert weights(moved(learner, before)) == names_of(learner, parts[1]) | names_of(learner, parts[2])
    # ... but their batch norm goes on with the statistics of the batches.
    assert "conv.1.running_mean" in moved(learner, before)
    before = snapshot(learner)
    learner.restart(parts[2:])
    learner.begin(learner.adam(1e-3), parts[2:])
    train(learner)
    assert weights(moved(learner, before)) == names_of(learner, parts[2])


def test_resting_parts_keep_their_weights_and_others_go_on_with_their_momentum():
    learner = make()
    parts = split(learner.net, standard_cuts(learner.net, 3))
    sgd = learner.sgd(**SGD)
    learner.begin(sgd)
    train(learner)
    momentum = {p: sgd.state[p]["momentum_buffer"].clone() for p in parts[0].parameters()}
    learner.restart(parts[1:])
    learner.begin(learner.adam(1e-3), parts[1:])
    train(learner)
    for parameter, buffer in momentum.items():
        assert torch.equal(sgd.state[parameter]["momentum_buffer"], buffer)
    before = snapshot(learner)
    learner.begin(sgd, parts[:1])
    train(learner)
    assert weights(moved(learner, before)) == names_of(learner, parts[0])
    resting = [p for part in parts[1:] for p in part.parameters()]
    assert all(p.grad is None for p in resting)  # no decay either
    assert not any(sgd.state[p]["momentum_buffer"].any() for p in resting)


def test_parts_that_train_on_begin_without_the_momentum_of_their_old_weights():
    learner = make()
    parts = split(learner.net, standard_cuts(learner.net, 3))
    sgd = learner.sgd(**SGD)
    learner.begin(sgd)
    train(learner)
    assert all(sgd.state[p]["momentum_buffer"].any() for p in learner.net.parameters())
    learner.restart(parts[1:])
    assert not any(sgd.state[p]["momentum_buffer"].any() for part in parts[1:] for p in part.parameters())
    assert all(sgd.state[p]["momentum_buffer"].any() for p in parts[0].parameters())
    before = snapshot(learner)
    learner.begin(sgd, parts)
    train(learner)
    assert weights(moved(learner, before)) == weights(set(before))


def test_restart_draws_new_weights_every_time_and_keeps_the_parameters():
    learner = make()
    parts = split(learner.net, standard_cuts(learner.net, 2))
    identity = [id(p) for p in learner.net.parameters()]
    seen = [learner.net.out.weight.clone()]
    for _ in range(2):
        learner.restart(parts[1:])
        seen.append(learner.net.out.weight.clone())
    assert not any(torch.equal(a, b) for a, b in pairwise(seen))
    assert [id(p) for p in learner.net.parameters()] == identity


@pytest.mark.parametrize("passes", [1, 2, 3])
def test_guessing_moves_batch_norm_as_far_as_a_pass_for_each_view(passes):
    """With views that are alike the joint pass and single ones must leave the same statistics."""
    together, apart = make(), make()
    view = next(iter(examples.batches(16))).plain()
    with torch.no_grad():
        probs = together.guess(*[view] * passes)
        alone = [apart(view).softmax(1) for _ in range(passes)][-1]
    torch.testing.assert_close(probs, alone)
    for name in ("running_mean", "running_var"):
        joint, single = (getattr(learner.net.conv[1], name) for learner in (together, apart))
        torch.testing.assert_close(joint, single, rtol=1e-3, atol=1e-5)  # n - 1 of more examples
    assert together.net.conv[1].momentum == 0.1


def test_guesses_are_the_mean_over_views_in_either_mode():
    learner = make()
    one, other = (batch.plain() for batch in list(examples.batches(16))[:2])
    with torch.no_grad():
        both = learner(torch.cat([one, other])).softmax(1)
        torch.testing.assert_close(learner.guess(one, other), (both[:16] + both[16:]) / 2)
        assert learner.guess(one[:1], other[:1]).shape == (1, 3)  # batch norm refuses a single row
    with learner.evaluating():
        before = snapshot(learner)
        expected = (learner(one).softmax(1) + learner(other).softmax(1)) / 2
        torch.testing.assert_close(learner.guess(one, other), expected)
        assert not moved(learner, before)


def stages(learner: Learner) -> list[set[str]]:
    """All of PES's stages, and what each of them moved."""
    parts = split(learner.net, standard_cuts(learner.net, 3))
    sgd = learner.sgd(**SGD)
    seen = []
    torch.manual_seed(1)
    examples.generator.manual_seed(1)
    for place, chosen in ((0, None), (1, parts[1:]), (2, parts[2:]), (0, parts[:1]), (0, parts)):
        if place:
            learner.restart(parts[place:])
        learner.begin(learner.adam(1e-3) if place else sgd, chosen)
        before = snapshot(learner)
        train(learner)
        seen.append(weights(moved(learner, before)))
    return seen


@pytest.fixture
def compiled_nets(monkeypatch):
    """The nets that were compiled, of any size, as far as it goes without a C compiler."""
    real = torch.compile
    frames = []

    def compile_without_a_c_compiler(net, **options):
        frames.append(net)
        return real(net, backend="aot_eager", **options)

    monkeypatch.setattr(torch, "compile", compile_without_a_c_compiler)
    monkeypatch.setattr("labelsift.training.learner.COMPILE_FROM", 0)
    yield frames
    torch.compiler.reset()


def assert_same(first: Learner, second: Learner) -> None:
    for (name, a), b in zip(first.net.state_dict().items(), second.net.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, msg=lambda message, name=name: f"{name}: {message}")


def test_a_compiled_run_equals_an_eager_one_across_stage_boundaries(compiled_nets):
    eager, compiled = make(), make(compile=True)
    compiled.fast = True
    assert stages(eager) == stages(compiled)
    assert len(compiled_nets) == 5  # a fresh one for every stage
    assert_same(eager, compiled)


def test_a_compiled_net_guesses_and_learns_in_turns_as_an_eager_one(compiled_nets):
    """Guessing moves batch norm further than learning does, and a compiled net must heed that."""
    eager, compiled = make(), make(compile=True)
    compiled.fast = True
    for learner in (eager, compiled):
        learner.begin(learner.sgd(**SGD))
        for batch in [Batch(examples, torch.arange(place, place + 16)) for place in (0, 16, 32)]:
            with torch.no_grad():
                guess = learner.guess(batch.plain(), batch.plain().flip(-1))
            learner.update(F.cross_entropy(learner(batch.plain()), guess))
    assert len(compiled_nets) == 1
    assert_same(eager, compiled)


def test_a_stage_that_trains_other_parts_than_it_should_is_noticed():
    learner = make()
    learner.begin(learner.sgd(**SGD))
    learner._unchecked = learner.fast = True
    batch = next(examples.batches(16))
    with torch.no_grad():
        features = learner.net.conv(batch.plain()).flatten(1)
    loss = learner.net.out(learner.net.hidden(features)).sum()  # no gradient reaches the convolution
    with pytest.raises(RuntimeError, match="its gradient says otherwise"):
        learner.update(loss)


def test_state_goes_round():
    first, second = make(), make()
    for learner in (first, second):
        learner.begin(learner.sgd(**SGD))
    train(first)
    first.adam(1e-3)
    second.adam(1e-3)
    second.load_state({name: tensor.clone() for name, tensor in first.state().items()})
    assert first.state().keys() == second.state().keys()
    assert all(torch.equal(tensor, second.state()[name]) for name, tensor in first.state().items())


def test_loaded_memory_has_the_layout_of_its_weights():
    torch.manual_seed(0)
    first, second = (Learner(blueprint(TinyNet, 3, (3, 12, 12)), Machine(torch.device("cpu"))) for _ in "ab")
    for learner in (first, second):
        learner.begin(learner.sgd(**SGD))
        learner.adam(1e-3)
    for optimiser in first.optimisers.values():
        first.begin(optimiser)
        first.update(first(torch.randn(4, 3, 12, 12)).square().sum())
    saved = {name: tensor.contiguous().clone() for name, tensor in first.state().items()}
    second.load_state(saved)
    # A fused optimiser takes both as they lie in memory.
    for optimiser in second.optimisers.values():
        weight = second.net.conv[0].weight
        memory = [tensor for tensor in optimiser.state[weight].values() if tensor.dim()]
        assert weight.is_contiguous(memory_format=torch.channels_last)
        assert [tensor.stride() for tensor in memory] == [weight.stride()] * len(memory)
    assert all(torch.equal(tensor, second.state()[name]) for name, tensor in saved.items())


def test_predictions_are_probabilities_in_evaluation_mode():
    learner = make()
    learner.begin(learner.sgd(**SGD))
    before = snapshot(learner)
    probs = learner.pred_probs(examples, views=2)
    torch.testing.assert_close(probs.sum(1), torch.ones(len(examples)))
    assert not moved(learner, before)
    assert learner.net.training
    learner.net.eval()
    slow = torch.cat([learner.net(b.plain()).softmax(1) for b in examples.batches(7, shuffle=False)])
    torch.testing.assert_close(learner.pred_probs(examples), slow)


def test_gradients_can_be_changed_before_the_step():
    learner = make()
    learner.begin(learner.sgd(0.1, 0.0, 0.0))
    before = snapshot(learner)
    batch = next(examples.batches(16))

    def only_the_output() -> None:
        for name, parameter in learner.net.named_parameters():
            if not name.startswith("out"):
                parameter.grad.zero_()

    learner.update(cross_entropy(learner(batch.view()), batch.labels), only_the_output)
    assert weights(moved(learner, before)) == {"out.weight", "out.bias"}


def test_an_average_follows_another_net():
    mine, other = make(), make()
    with torch.no_grad():
        mine.net.out.bias.fill_(1.0)
        other.net.out.bias.fill_(2.0)
    mine.average(other, torch.tensor(0.75))
    assert mine.net.out.bias.tolist() == [1.25] * 3
    assert other.net.out.bias.tolist() == [2.0] * 3


def test_evaluating_is_a_mode_without_gradients():
    learner = make()
    learner.begin(learner.sgd(0.1, 0.0, 0.0))
    before = snapshot(learner)
    with learner.evaluating():
        assert not learner.net.training
        assert not learner(torch.zeros(4, 1, 12, 12)).requires_grad
    assert learner.net.training
    assert not moved(learner, before)  # batch norm's statistics stand still too
    with pytest.raises(ZeroDivisionError), learner.evaluating():
        raise ZeroDivisionError
    assert learner.net.training


def test_a_stage_begins_in_training_mode_and_compiles_no_small_net():
    learner = make(compile=True)
    learner.net.eval()  # as a net of one's own may be
    learner.begin(learner.sgd(**SGD))
    assert learner.net.training
    assert learner.compiled is None


def test_bf16_is_for_the_net_alone():
    torch.manual_seed(0)
    learner, exact = (
        Learner(blueprint(TinyNet, 3, (1, 12, 12)), Machine(torch.device("cpu"), autocast=True)),
        make(),
    )
    exact.net.load_state_dict(learner.net.state_dict())
    view = torch.randn(8, 1, 12, 12)
    assert learner(view).dtype == torch.float32
    assert not torch.equal(learner(view), exact(view))
    torch.testing.assert_close(learner(view), exact(view), rtol=0.05, atol=0.05)


def test_images_come_with_channels_last():
    learner, seen = Learner(blueprint(TinyNet, 3, (3, 12, 12)), Machine(torch.device("cpu"))), []
    learner.net.register_forward_pre_hook(lambda net, views: seen.append(views[0].stride()))
    learner(torch.zeros(2, 3, 12, 12))
    assert seen == [(432, 1, 36, 3)]


def test_a_rate_on_the_device_is_changed_in_place():
    learner = make()
    rate = torch.tensor(0.1)
    learner.begin(torch.optim.SGD(learner.net.parameters(), rate))
    learner.lr = 0.25
    assert rate.item() == learner.lr == 0.25
    assert learner.optimiser.param_groups[0]["lr"] is rate


def test_a_prediction_takes_no_more_passes_and_no_larger_ones_than_it_needs(monkeypatch):
    learner, sizes = make(), []
    learner.net.register_forward_pre_hook(lambda net, views: sizes.append(len(views[0])))
    learner.pred_probs(examples, views=2)
    learner.pred_probs(toy_examples(toy_data(120), augment="none"), views=2)  # whose views cannot differ
    assert sizes == [120, 120, 120]
    monkeypatch.setattr("labelsift.training.learner.PREDICT_NUMBERS", 50 * 144)
    learner.pred_probs(examples)
    assert sizes[3:] == [50, 50, 20]


def test_a_renewed_net_has_other_weights_in_the_same_parameters():
    learner = make()
    weight, before = learner.net.out.weight, learner.net.out.weight.clone()
    learner.renew()
    assert learner.net.out.weight is weight
    assert not torch.equal(weight, before)
