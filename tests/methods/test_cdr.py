import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import labelsift
from labelsift import CE
from labelsift.methods import CDR
from labelsift.methods.cdr import keep_critical, kth_largest
from toys import TinyNet, toy_data

PLAIN = {"epochs": 3, "batch_size": 32, "lr": 0.03}
numbers = st.floats(0, allow_nan=False, allow_infinity=False, width=32)


def share(value):
    return torch.tensor(value, dtype=torch.float64)


def net_with_gradients(seed=0):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    net = TinyNet(3, 1)
    for parameter in net.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return net, {name: p.grad.clone() for name, p in net.named_parameters()}


def pooled(net):
    """The weights of convolutions and linear layers, by name."""
    return {name: p for name, p in net.named_parameters() if p.dim() in (2, 4)}


@settings(max_examples=50)
@given(st.lists(numbers, min_size=1, max_size=50), st.data())
def test_the_kth_largest_is_that_of_a_sort(values, data):
    k = data.draw(st.integers(1, len(values)))
    found = kth_largest(torch.tensor(values), torch.tensor(k))
    assert found.item() == sorted(torch.tensor(values).tolist(), reverse=True)[k - 1]


def test_without_noise_it_is_plain_training(make_run):
    runs = []
    for method in (CE(**PLAIN), CDR(**PLAIN, noise_rate=0.0)):
        runs.append(make_run(folder=method.name))
        method.fit(runs[-1])
    plain, same = (run.learners[0].net.state_dict() for run in runs)
    for name in plain:
        assert torch.equal(plain[name], same[name]), name
    losses = [[row["train_loss"] for row in run.history] for run in runs]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("noise_rate", [0.2, 0.5, 0.93])
def test_critical_weights_are_chosen_over_all_layers_and_damped(noise_rate):
    net, before = net_with_gradients()
    keep_critical(net, share(1 - noise_rate))
    scores = {name: (p * before[name]).abs() for name, p in pooled(net).items()}
    ranked = sorted((value for score in scores.values() for value in score.flatten().tolist()), reverse=True)
    threshold = ranked[int((1 - noise_rate) * len(ranked)) - 1]
    for name, parameter in net.named_parameters():
        expected = before[name]
        if name in scores:
            expected = (1 - noise_rate) * expected * (scores[name] >= threshold)
        torch.testing.assert_close(parameter.grad, expected, msg=name)
    kept = sum(int((p.grad != 0).sum()) for p in pooled(net).values())
    assert kept == int((1 - noise_rate) * len(ranked))
    shares = {name: (p.grad != 0).float().mean().item() for name, p in pooled(net).items()}
    assert max(shares.values()) - min(shares.values()) > 0.01  # one threshold, not one for each layer


def test_the_choice_does_not_depend_on_the_scale_of_the_loss():
    masks = []
    for scale in (1.0, 0.125):  # a power of two, so that nothing is rounded
        net, _ = net_with_gradients()
        for parameter in net.parameters():
            parameter.grad *= scale
        keep_critical(net, share(0.3))
        masks.append([parameter.grad != 0 for parameter in net.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*masks, strict=True))


def test_one_weight_at_least_is_critical_and_one_that_is_zero_is_not():
    for kept in (1e-9, 1.5 / sum(p.numel() for p in pooled(TinyNet(3, 1)).values())):
        net, before = net_with_gradients()
        keep_critical(net, share(kept))
        (found,) = [(name, p.grad) for name, p in pooled(net).items() if p.grad.any()]
        assert (found[1] != 0).sum() == 1
        scores = {name: (p * before[name]).abs().max() for name, p in pooled(net).items()}
        assert found[0] == max(scores, key=scores.get)
    net, before = net_with_gradients()
    with torch.no_grad():
        net.out.weight[0] = 0
    keep_critical(net, share(0.9))
    assert net.out.weight.grad[0].abs().max() == 0
    assert torch.equal(net.out.bias.grad, before["out.bias"])


def test_gradients_that_are_all_zero_and_those_that_are_not_there_do_no_harm():
    net, _ = net_with_gradients()
    for parameter in net.parameters():
        parameter.grad.zero_()
    net.conv[0].weight.grad = None
    keep_critical(net, share(0.5))
    assert net.conv[0].weight.grad is None
    assert net.out.weight.grad.abs().max() == 0


def test_without_momentum_and_decay_only_critical_weights_move(make_run):
    run = make_run()
    before = {}
    real = run.learner

    def learner(judged=True):
        made = real(judged)
        before.update({name: p.detach().clone() for name, p in made.net.named_parameters()})
        return made

    run.learner = learner
    method = CDR(epochs=1, batch_size=240, lr=0.1, momentum=0.0, weight_decay=0.0, noise_rate=0.8)
    method.fit(run)
    net = run.learners[0].net
    moved = {name: p != before[name] for name, p in net.named_parameters()}
    count = sum(p.numel() for p in pooled(net).values())
    assert sum(int(moved[name].sum()) for name in pooled(net)) <= int((1 - 0.8) * count)
    assert sum(int(moved[name].sum()) for name in pooled(net)) > 0.15 * count
    assert all(moved[name].any() for name in ("out.bias", "hidden.1.weight", "hidden.1.bias"))


def test_an_estimate_is_made_once_after_plain_epochs(make_run, monkeypatch):
    asked, shares = [], []

    def noise_rate(probs, labels):
        asked.append(len(labels))
        return 0.3

    monkeypatch.setattr("labelsift.estimates.noise_rate", noise_rate)
    real = keep_critical
    monkeypatch.setattr(
        "labelsift.methods.cdr.keep_critical",
        lambda net, share: (shares.append(share.item()), real(net, share)),
    )
    losses = []
    for method in (CE(epochs=5, batch_size=60), CDR(epochs=5, batch_size=60, estimate_epochs=2)):
        run = make_run(folder=method.name)
        method.fit(run)
        losses.append([row["train_loss"] for row in run.history])
    assert asked == [240]
    assert shares == pytest.approx([1.0] * 8 + [0.7] * 12)
    assert losses[0][:2] == losses[1][:2]
    assert losses[0][3] != losses[1][3]


def test_it_hinders_learning_by_heart():
    agreed = []
    for method in (
        CE(epochs=6, batch_size=16, lr=0.03),
        CDR(epochs=6, batch_size=16, lr=0.03, noise_rate=0.7),
    ):
        result = labelsift.fit(toy_data(180), method=method, net=TinyNet, augment="none")
        agreed.append(result.confident.mean())  # with the given labels, of which 0.4 are wrong
    assert agreed[1] < agreed[0] - 0.05
