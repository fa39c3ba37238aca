import torch

import labelsift
from labelsift import CE
from labelsift.methods import MixUp
from toys import TinyNet, toy_data


def test_a_mixture_that_is_all_of_the_first_is_plain_training(make_run, monkeypatch):
    plain = make_run(folder="a")
    CE(epochs=2, batch_size=16).fit(plain)
    monkeypatch.setattr("labelsift.methods.mixup.mixing_share", lambda alpha: torch.tensor(1.0))
    mixed = make_run(folder="b")
    MixUp(epochs=2, batch_size=16).fit(mixed)
    a, b = (run.learners[0].net.state_dict() for run in (plain, mixed))
    for name in a:
        torch.testing.assert_close(a[name], b[name], msg=name)


def test_mixtures_slow_the_learning_by_heart():
    agreed = []
    for method in (
        CE(epochs=8, batch_size=16, lr=0.03),
        MixUp(epochs=8, batch_size=16, lr=0.03, alpha=8.0),
    ):
        result = labelsift.fit(toy_data(240), method=method, net=TinyNet, augment="none")
        agreed.append(result.confident.mean())  # with the given labels, of which 0.4 are wrong
    assert agreed[1] < agreed[0] - 0.1
