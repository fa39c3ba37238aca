"""Feature rows (a table, or embeddings of another model) in scikit-learn's way: pip install '.[sklearn]'."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import labelsift


def main(epochs: tuple[int, ...] = (20, 40), rate: float = 0.4) -> dict[str, float]:
    """Accuracies on clean test rows, a share of the training labels being wrong."""
    x, y = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split(x, y, random_state=0)
    draw = np.random.default_rng(0)
    given = np.where(draw.random(len(y)) < rate, (y + draw.integers(1, 10, len(y))) % 10, y)

    usual = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(x, given)
    sifted = make_pipeline(StandardScaler(), labelsift.NoisyLabelClassifier(random_state=0))
    search = GridSearchCV(sifted, {"noisylabelclassifier__epochs": epochs}, cv=2).fit(x, given)
    judge = search.best_estimator_[-1]

    doubted = judge.label_quality_ < 0.5
    reached = {
        "logistic regression": usual.score(test_x, test_y),
        "labelsift": search.score(test_x, test_y),
        "doubted labels that are wrong": (given != y)[doubted].mean(),
        "wrong labels that are doubted": doubted[given != y].mean(),
    }
    for name, share in reached.items():
        print(f"{name:30} {share:.1%}")
    return {name: float(share) for name, share in reached.items()}


if __name__ == "__main__":
    main()
