"""`NoisyLabelClassifier`: `fit` as an estimator of scikit-learn, which is an extra and imported only here."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from labelsift.api import fit
from labelsift.data import make_dataset
from labelsift.data.dataset import check_inputs, in_unit
from labelsift.methods import Method
from labelsift.nets import Factory
from labelsift.result import MODEL, Result

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import Tags, check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError(
        "NoisyLabelClassifier needs scikit-learn 1.6 or newer: pip install 'labelsift[sklearn]'."
    ) from None

FEW = 32  # rows: fewer are multiplied in another order, and a row's last digits would depend on its company


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that wrong labels do not fool, for feature rows (N x D) or images (N x H x W, with or
    without channels last).

    The parameters are those of `labelsift.fit`; `epochs` is the setting of this name, where a grid search
    finds it. What is not in `settings` follows from the data, such as smaller batches for small sets. After
    `fit`: `classes_`; for each training example `label_quality_` (0..1, low is suspicious),
    `suggested_labels_` and `confident_` (whether the net agrees with its label); `record_` and `history_` as
    the run wrote them.
    """

    def __init__(
        self,
        method: str | Method = "auto",
        net: str | Factory | nn.Module = "auto",
        *,
        epochs: int | None = None,
        settings: dict[str, Any] | None = None,
        nets: int = 1,
        validation: float = 0.0,
        augment: str = "auto",
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.net = net
        self.epochs = epochs
        self.settings = settings
        self.nets = nets
        self.validation = validation
        self.augment = augment
        self.device = device
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> "NoisyLabelClassifier":
        """Train on examples with labels of any kind, some of them wrong."""
        X, y = validate_data(self, X, y, allow_nd=True, ensure_min_samples=2)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(np.asarray(y), return_inverse=True)
        data = make_dataset("arrays", X, numbers, classes=[str(name) for name in self.classes_])
        result = fit(
            data,
            method=self.method,
            net=self.net,
            seed=check_random_state(self.random_state).randint(2**31 - 1),
            nets=self.nets,
            validation=self.validation,
            augment=self.augment,
            settings=self._settings(),
            device=self.device,
        )
        self.label_quality_ = result.label_quality
        self.suggested_labels_ = self.classes_[result.suggested_labels]
        self.confident_ = result.confident
        self.record_, self.history_ = result.record, result.history
        # As bytes, not as a folder that lives along: a fitted estimator is copied, pickled and forked.
        self._model = (result.folder / MODEL).read_bytes()
        self._own_net = None if isinstance(self.net, str) else self.net
        # Float pixels that are predicted have the range of those that were trained on, however dark they are.
        floats = np.asarray(X).dtype.kind == "f" and np.ndim(X) > 2
        self._unit = in_unit(np.asarray(X)) if floats else None
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """The probability of each of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, allow_nd=True)
        inputs = check_inputs("X", X, self._unit if np.asarray(X).dtype.kind == "f" else None)
        count = len(inputs)
        if inputs.ndim == 2 and count < FEW:
            inputs = np.resize(inputs, (FEW, inputs.shape[1]))
        with TemporaryDirectory(prefix="labelsift-") as place:
            folder = Path(place)
            (folder / "result.json").write_text(json.dumps(self.record_))
            (folder / MODEL).write_bytes(self._model)
            return Result(folder, self._own_net).predict_checked(inputs, self.device)[:count]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable label, as the labels were given."""
        numbers = self.predict_proba(X).argmax(1)
        labels: NDArray[Any] = self.classes_[numbers]
        return labels

    def _settings(self) -> dict[str, Any]:
        settings = dict(self.settings or {})
        return settings if self.epochs is None else {**settings, "epochs": self.epochs}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
