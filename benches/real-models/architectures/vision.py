"""Image models, of torchvision."""

import os

from .model import Model, from_torch

# Of images, in pixels.
SIDE = int(os.environ.get("SIDE", "128"))
IMAGE = f"1x3x{SIDE}x{SIDE}"


def calibrate(model) -> None:
    """Takes the statistics of batch normalisations from random images: activations would vanish, or grow, without."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(torch.randn(8, 3, SIDE, SIDE))


def torchvision_model(name: str, **arguments):
    def create():
        import torch
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, **arguments)
        calibrate(model)
        return model, (torch.randn(1, 3, SIDE, SIDE),)

    return create


def vit():
    """ViT-Tiny."""
    import torch
    from torchvision.models import VisionTransformer

    model = VisionTransformer(SIDE, patch_size=16, num_layers=12, num_heads=3, hidden_dim=192, mlp_dim=768)
    # The head is initialised with zeros.
    torch.nn.init.normal_(model.heads.head.weight, std=0.05)
    return model, (torch.randn(1, 3, SIDE, SIDE),)


def row(name: str, title: str, create, through: str = "onnx", source: str = "torchvision") -> Model:
    route = "ONNX" if through == "onnx" else "torch.export"
    return Model(name, title, f"{source}, {route}", IMAGE, from_torch(create, through))


MODELS = [
    row("resnet50", "ResNet-50", torchvision_model("resnet50")),
    row("mobilenet_v3", "MobileNetV3-Small", torchvision_model("mobilenet_v3_small")),
    row("efficientnet_b0", "EfficientNet-B0", torchvision_model("efficientnet_b0")),
    row("squeezenet", "SqueezeNet 1.1", torchvision_model("squeezenet1_1"), "mlir"),
    row("shufflenet_v2", "ShuffleNetV2 x0.5", torchvision_model("shufflenet_v2_x0_5"), "mlir"),
    row("vit", "ViT-Tiny", vit, "mlir"),
]
