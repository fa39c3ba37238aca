"""The authors' settings, each of them, as they are known; rates by epoch, counted from 0."""

import pytest

from labelsift.methods import make_method

C10, C100 = ("cifar10", "resnet18"), ("cifar100", "resnet34")
SEMI10, SEMI100 = ("cifar10", "preact-resnet18"), ("cifar100", "preact-resnet18")
CLOTHING = ("clothing1m", "resnet50")
COMMON = {"momentum": 0.9, "epoch_examples": 0}
LIKE_CE = {"epochs": 50, "batch_size": 64, "weight_decay": 1e-3, "epoch_examples": 100_000}
CE_RATES = {0: 5e-3, 19: 5e-3, 20: 5e-4, 29: 5e-4, 30: 5e-5, 49: 5e-5}

ADAM = {"epochs": 200, "batch_size": 128, "weight_decay": 0.0, "ramp_epochs": 10, "late_momentum": 0.1}
CDR = {"epochs": 200, "batch_size": 64, "weight_decay": 1e-3}
JOINT = {"epochs": 320, "first_epochs": 200, "batch_size": 128, "weight_decay": 1e-4, "lr": 0.1}
JOINT |= {"final_lr": 0.2, "schedule": "step", "decay_at": (40 / 120, 80 / 120), "decay_factor": 0.1}
JOINT |= {"update_from": 70 / 200, "window": 10, "prior_weight": 1.0, "entropy_weight": 0.5}
JOINT |= {"prior": "uniform", "noise_kind": "unknown"}
REVISED = {"epochs": 200, "batch_size": 128, "weight_decay": 1e-4, "estimate_momentum": 0.0}
REVISED |= {"revision_epochs": 200, "revision_lr": 5e-7}
DMI = {"first_epochs": 120, "dmi_epochs": 100, "batch_size": 256, "weight_decay": 1e-4}
DMI |= {"dmi_lr": 1e-6, "dmi_halve_at": (), "gradient_limit": 0.0}
MIXED = {"epochs": 300, "mixup_epochs": 105, "alpha": 32.0, "batch_size": 128, "weight_decay": 1e-4}
MIXED |= {"guess": "hard", "prior_weight": 1.0}
MIXUP = {"epochs": 200, "batch_size": 128, "weight_decay": 1e-4, "alpha": 1.0}
DIVIDE = {"epochs": 300, "batch_size": 128, "weight_decay": 5e-4, "threshold": 0.5, "temperature": 0.5}
DIVIDE |= {"alpha": 4.0, "ramp_epochs": 16, "prior_weight": 1.0, "unlabelled_weight": 25.0}
ELR = {"epochs": 150, "batch_size": 128, "weight_decay": 1e-3, "noise_kind": "symmetric"}
PLUS = {"batch_size": 128, "weight_decay": 5e-4, "alpha": 1.0, "average_share": 0.997}
PLUS |= {"average_ramp": "exponential", "average_ramp_steps": 40_000, "noise_kind": "symmetric"}
TENTHS = {"memory_share": 0.7, "memory_weight": 3.0, "asymmetric_share": 0.9, "asymmetric_weight": 1.0}
HUNDREDTHS = {"memory_share": 0.9, "memory_weight": 7.0, "asymmetric_share": 0.9, "asymmetric_weight": 7.0}

KNOWN = {
    ("co-teaching", C10): (ADAM, {0: 1e-3, 80: 1e-3, 140: 5e-4, 199: 1e-3 / 120}),
    ("co-teaching", C100): (ADAM, {0: 1e-3, 100: 1e-3, 150: 5e-4, 199: 1e-5}),
    ("forward", C10): (
        {"epochs": 120, "batch_size": 128, "weight_decay": 2e-4, "filter_outliers": True}
        | {"estimate_epochs": 45},
        {0: 0.1, 40: 0.1, 41: 0.01, 80: 0.01, 81: 1e-3, 119: 1e-3},
    ),
    ("forward", C100): (
        {"epochs": 150, "batch_size": 128, "weight_decay": 2e-3, "filter_outliers": False}
        | {"estimate_epochs": 85},
        {0: 0.1, 80: 0.1, 81: 0.01, 120: 0.01, 121: 1e-3, 149: 1e-3},
    ),
    ("forward", CLOTHING): ({**LIKE_CE, "estimate_epochs": 20}, CE_RATES),
    ("joint-optim", C10): (JOINT, {}),
    ("joint-optim", C100): (JOINT, {}),
    ("joint-optim", CLOTHING): (
        {"epochs": 20, "first_epochs": 10, "batch_size": 32, "weight_decay": 1e-3, "lr": 8e-4}
        | {"final_lr": 5e-4, "decay_at": (0.5,), "prior_weight": 2.4, "entropy_weight": 0.8, "window": 10},
        {},
    ),
    ("t-revision", C10): (
        {**REVISED, "estimate_epochs": 20, "filter_outliers": True},
        {0: 0.01, 39: 0.01, 40: 1e-3, 79: 1e-3, 80: 1e-4, 199: 1e-4},
    ),
    ("t-revision", C100): (
        {**REVISED, "estimate_epochs": 15, "filter_outliers": False},
        {0: 0.01, 39: 0.01, 40: 1e-3, 79: 1e-3, 80: 1e-4, 199: 1e-4},
    ),
    ("t-revision", CLOTHING): (
        {**LIKE_CE, "estimate_epochs": 20, "revision_epochs": 45, "revision_lr": 5e-7},
        CE_RATES,
    ),
    ("dmi", C10): ({**DMI, "dmi_batch_size": 0}, {0: 0.1, 39: 0.1, 40: 0.01, 79: 0.01, 80: 1e-3, 119: 1e-3}),
    ("dmi", C100): ({**DMI, "dmi_batch_size": 1000}, {39: 0.1, 40: 0.01, 79: 0.01, 80: 1e-3}),
    ("dmi", CLOTHING): (
        {**DMI, "first_epochs": 10, "dmi_epochs": 10, "weight_decay": 1e-3, "dmi_halve_at": (0.5,)}
        | {"dmi_batch_size": 256},  # where 25 for each of 14 classes would be more
        {0: 0.01, 4: 0.01, 5: 1e-3, 9: 1e-3},
    ),
    ("cdr", C10): (CDR, {0: 0.01, 39: 0.01, 40: 1e-3, 79: 1e-3, 80: 1e-4, 199: 1e-4}),
    ("cdr", C100): (CDR, {0: 0.01, 39: 0.01, 40: 1e-3, 79: 1e-3, 80: 1e-4, 199: 1e-4}),
    ("m-correction", SEMI10): (MIXED, {0: 0.1, 99: 0.1, 100: 0.01, 249: 0.01, 250: 1e-3, 299: 1e-3}),
    ("m-correction", SEMI100): (MIXED, {0: 0.1, 99: 0.1, 100: 0.01, 249: 0.01, 250: 1e-3, 299: 1e-3}),
    ("mixup", SEMI10): (MIXUP, {0: 0.1, 100: 0.1, 101: 0.01, 150: 0.01, 151: 1e-3, 199: 1e-3}),
    ("mixup", SEMI100): (MIXUP, {0: 0.1, 100: 0.1, 101: 0.01, 150: 0.01, 151: 1e-3, 199: 1e-3}),
    ("dividemix", SEMI10): (
        {**DIVIDE, "warm_up_epochs": 10, "confidence_penalty": False},
        {0: 0.02, 149: 0.02, 150: 2e-3, 299: 2e-3},
    ),
    ("dividemix", SEMI100): ({**DIVIDE, "warm_up_epochs": 30}, {0: 0.02, 149: 0.02, 150: 2e-3, 299: 2e-3}),
    # One epoch of 1000 x 64 images and 80 of 1000 x 32; the rate falls in epoch 40 of these, counted from 0.
    ("dividemix", CLOTHING): (
        {**DIVIDE, "epochs": 2 + 80, "warm_up_epochs": 2, "epoch_examples": 32_000, "batch_size": 32 + 32}
        | {"weight_decay": 1e-3, "alpha": 0.5, "unlabelled_weight": 0.0, "confidence_penalty": True},
        {0: 2e-3, 40: 2e-3, 41: 2e-4, 81: 2e-4},
    ),
    ("elr", ("cifar10", "resnet34")): (
        {**ELR, **TENTHS, "restart_epochs": 10},
        {0: 0.02, 5: 0.0105, 10: 0.02, 140: 0.02},
    ),
    ("elr", C100): ({**ELR, **HUNDREDTHS}, {0: 0.02, 79: 0.02, 80: 2e-4, 119: 2e-4, 120: 2e-6, 149: 2e-6}),
    ("elr", CLOTHING): (
        {**ELR, **TENTHS, "epochs": 10, "batch_size": 64},
        {0: 1e-3, 4: 1e-3, 5: 1e-5, 9: 1e-5},
    ),
    ("elr-plus", SEMI10): (
        {**PLUS, **TENTHS, "epochs": 200, "weight_ramp_steps": 0, "targets_by_memory": False},
        {0: 0.02, 149: 0.02, 150: 2e-3, 199: 2e-3},
    ),
    ("elr-plus", SEMI100): (
        {**PLUS, **HUNDREDTHS, "epochs": 250, "weight_ramp_steps": 40_000, "targets_by_memory": True},
        {0: 0.02, 199: 0.02, 200: 2e-3, 249: 2e-3},
    ),
    ("elr-plus", CLOTHING): (
        {**PLUS, **TENTHS, "epochs": 15, "batch_size": 64, "epoch_examples": 3000 * 64, "weight_decay": 1e-3}
        | {"average_ramp": "mean", "average_share": 0.9999, "average_ramp_steps": 0},
        {0: 2e-3, 6: 2e-3, 7: 2e-4, 14: 2e-4},
    ),
}


@pytest.mark.parametrize(
    ("name", "place"), KNOWN, ids=lambda value: "-".join(value) if type(value) is tuple else value
)
def test_the_settings_are_the_authors(name, place):
    values, rates = KNOWN[name, place]
    method = make_method(name, *place, "", {})
    found = {key: getattr(method, key) for key in COMMON | values}
    assert found == COMMON | values
    assert {epoch: method.lr_at(epoch) for epoch in rates} == pytest.approx(rates)
