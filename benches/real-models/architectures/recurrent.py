"""Recurrent networks, of torch."""

from .model import Model, from_torch

STEPS, FEATURES, HIDDEN = 32, 64, 128


def recurrent(kind: str):
    def create():
        import torch

        class Classifier(torch.nn.Module):
            """A recurrent network of two layers, and a product with its last state."""

            def __init__(self):
                super().__init__()
                self.recurrent = getattr(torch.nn, kind)(FEATURES, HIDDEN, num_layers=2, batch_first=True)
                self.head = torch.nn.Linear(HIDDEN, 10)

            def forward(self, x):
                states, _ = self.recurrent(x)
                return self.head(states[:, -1])

        return Classifier(), (torch.randn(1, STEPS, FEATURES),)

    return create


def row(name: str, title: str, kind: str, through: str) -> Model:
    route = "ONNX" if through == "onnx" else "torch.export"
    return Model(name, title, f"torch, {route}", f"{STEPS} steps of {FEATURES}", from_torch(recurrent(kind), through))


MODELS = [
    row("lstm", "LSTM, 2 layers of 128", "LSTM", "mlir"),
    row("gru", "GRU, 2 layers of 128", "GRU", "onnx"),
]
