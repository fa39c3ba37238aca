"""From images with some wrong labels to corrected labels, and to a net trained on those.

The labels are spoiled here on purpose, so that one sees how much of it is found: yours are not.
"""

import numpy as np

import labelsift


def main(limit: int = 3000, epochs: int = 40) -> dict[str, float]:
    """The share of wrong labels before and after, and test accuracies of plain nets trained on either."""
    data = labelsift.load("fashion-demo").limited(limit, seed=1)
    images, test = data.inputs[:, 0], (data.test_inputs[:, 0], data.test_labels)
    noise = labelsift.Noise.parse("pair:0.3")
    given = noise.apply(data.inputs, data.labels, data.num_classes, seed=1).labels

    # What a label is worth, and what it should be: read off a training that wrong labels did not fool.
    found = labelsift.fit(images, given, test=test, method=labelsift.PES(epochs=epochs))
    for row in found.suspicious(3):
        print(f"image {row['index']}: {row['label']} is rather {row['suggested_label']}", end=", ")
        print(f"the label's quality is {float(row['label_quality']):.3f}")

    # Trust a suggestion only where the label is doubtful.
    corrected = np.where(found.label_quality < 0.5, found.suggested_labels, given)
    reached = {
        "wrong before": (given != data.labels).mean(),
        "wrong after": (corrected != data.labels).mean(),
    }
    for name, labels in {"as given": given, "corrected": corrected}.items():
        plain = labelsift.fit(images, labels, test=test, method=labelsift.CE(epochs=epochs))
        reached[f"plain training, {name}"] = plain.test_accuracy["last"]
    reached["PES"] = found.test_accuracy["last"]
    for name, share in reached.items():
        print(f"{name:26} {share:.1%}")
    return {name: float(share) for name, share in reached.items()}


if __name__ == "__main__":
    main()
