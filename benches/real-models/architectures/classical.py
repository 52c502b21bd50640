"""scikit-learn, by skl2onnx."""

from .model import Model, from_sklearn

ROWS = 32


def digits():
    """Returns the training data, which scikit-learn contains, and the rows that are classified."""
    import numpy as np
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    features = (features / 16).astype(np.float32)
    return features[:1000], labels[:1000], features[1000 : 1000 + ROWS]


def classifier(create):
    def fitted():
        import numpy as np

        features, labels, rows = digits()
        estimator = create().fit(features, labels)
        return estimator, rows, [estimator.predict(rows).astype(np.int64), estimator.predict_proba(rows).astype(np.float32)]

    return fitted


def mlp():
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((64,), max_iter=60, random_state=0)


def logistic():
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=200)


def forest():
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(20, max_depth=8, random_state=0)


def transformation(create):
    """The export of what transforms features into other ones."""

    def fitted():
        import numpy as np

        features, _, rows = digits()
        estimator = create().fit(features)
        return estimator, rows, [estimator.transform(rows).astype(np.float32)]

    return fitted


def pca():
    from sklearn.decomposition import PCA

    return PCA(16, whiten=True, random_state=0)


def mlp_regressor():
    """Predicts the brightness of the right half of an image from the left one's pixels."""
    import numpy as np
    from sklearn.neural_network import MLPRegressor

    features, _, rows = digits()
    left = np.arange(64) % 8 < 4
    estimator = MLPRegressor(hidden_layer_sizes=(64, 32), max_iter=60, random_state=0)
    estimator.fit(features[:, left], features[:, ~left].mean(1))
    rows = np.ascontiguousarray(rows[:, left])
    return estimator, rows, [estimator.predict(rows).astype(np.float32).reshape(-1, 1)]


def row(name: str, title: str, create, features: int = 64) -> Model:
    return Model(name, title, "scikit-learn, skl2onnx", f"{ROWS}x{features}", from_sklearn(create))


MODELS = [
    row("mlp", "multi-layer perceptron, regression", mlp_regressor, 32),
    row("pca", "principal components", transformation(pca)),
    row("mlp_classifier", "multi-layer perceptron, classifier", classifier(mlp)),
    row("logistic", "logistic regression", classifier(logistic)),
    row("forest", "random forest", classifier(forest)),
]
